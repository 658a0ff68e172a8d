"""Long decisions: a child process makes them on its copy of the cluster, while the loop goes on.

the loop ─► `process.slice`: an attempt of 20 ms ─► longer ─► the lane ─► `planning`
        ─► a child decides (`process.forks`)
▲                              │ `messages`
└── it does not fit ◄── the loop checks, and carries out
"""
