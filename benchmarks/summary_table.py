"""Draws an entry of a summary as a console table: one row per figure, one column per scheduler."""

from rich.table import Table

from benchmarks.results import OURS, THEIRS, Json

_ROWS = (
    ("pods_per_s", "pods/s", "{:.0f}"),
    ("pods_per_s_with_events", "pods/s to the last event", "{:.0f}"),
    ("cpu_ms_per_pod", "CPU ms per pod, scheduler", "{:.2f}"),
    ("api_server_cpu_ms_per_pod", "CPU ms per pod, API server", "{:.2f}"),
    ("etcd_cpu_ms_per_pod", "CPU ms per pod, etcd", "{:.2f}"),
    ("requests_per_pod", "requests per pod", "{:.2f}"),
    ("events_missing", "events missing", "{:.0f}"),
    ("peak_mb", "peak memory, MB", "{:.0f}"),
    ("last_s", "start, or first creation, to last binding, s", "{:.1f}"),
    ("start_s", "start to first binding, s", "{:.1f}"),
    ("p50_ms", "p50 to binding, ms", "{:.0f}"),
    ("p99_ms", "p99 to binding, ms", "{:.0f}"),
    ("cpu_share_stdev", "deviation of CPU shares", "{:.3f}"),
    ("zone_skew", "skew over zones, pods", "{:.0f}"),
    ("empty_nodes", "empty nodes", "{:.0f}"),
    ("others_cpu_share", "share of the machine used by others", "{:.2f}"),
    ("overcommitted_nodes", "over-committed nodes", "{:.0f}"),
)


def summary_table(entry: Json) -> Table:
    """The table of one workload. The last column is Podwright's figure divided by kube-scheduler's, with its spread."""
    title = f"{entry['workload']}, {entry['nodes']} nodes, {entry['pods']} pods, {entry['mode']}, {entry['pairs']} x"
    series_names = [
        name for name, figures in entry.items() if isinstance(figures, dict) and "pods_per_s_with_events" in figures
    ]
    headings = [name.replace("_", " ") for name in series_names]
    drawn = Table("", *headings, f"{OURS} / {THEIRS.replace('_', ' ')}", title=title, title_justify="left")
    for name, label, form in _ROWS:
        cells = [form.format(entry[series][name]) if name in entry[series] else "" for series in series_names]
        drawn.add_row(label, *cells, _ratio(entry, name))
    return drawn


def _ratio(entry: Json, name: str) -> str:
    if name not in entry.get("ratio", {}):
        return ""
    smallest, largest = entry["ratio_spread"][name]
    return f"{entry['ratio'][name]:.2f} ({smallest:.2f} to {largest:.2f})"
