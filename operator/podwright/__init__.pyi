from podwright.simulator.explain.results import Change as Change
from podwright.simulator.explain.results import Explanation as Explanation
from podwright.simulator.explain.results import WorkloadExplanation as WorkloadExplanation
from podwright.simulator.library import Cluster as Cluster
from podwright.simulator.library import Picture as Picture
from podwright.simulator.library import Policy as Policy
from podwright.simulator.library import explain as explain
from podwright.simulator.library import plots as plots
from podwright.simulator.library import replay as replay
from podwright.simulator.library import simulate as simulate
from podwright.simulator.replay.scorecard import Scorecard as Scorecard
from podwright.simulator.results import SimulationResult as SimulationResult

__version__: str
