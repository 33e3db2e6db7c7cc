# The face of the house: all that annexes and plug-ins of others import. extend.py loads a name at its first use.

# Models, for readers.
from analysis.capture import runnable_model as runnable_model
from analysis.model import model_errors as model_errors
from analysis.model import reading_budget as reading_budget
from analysis.model import store as store
from analysis.model.ir import batch_limits as batch_limits
from analysis.model.ir import operator_graph as operator_graph
from analysis.model.ir import poly as poly
from analysis.model.ir import size_expressions as size_expressions
from analysis.model.ir import workload as workload
from analysis.model.ir.operator_kinds import KINDS as KINDS
from analysis.model.lowering.graph_lowering import lower_graph as lower_graph
from analysis.model.names.targets import Input as Input
from analysis.model.operators import contractions as contractions
from analysis.model.operators import cost_rules as cost_rules
from analysis.model.operators import element_costs as element_costs

# Work in a subprocess under limits.
from analysis.model.process import child_job as child_job
from analysis.model.process.answering import answer as answer

# Estimates, and what is made of them.
from analysis import document as document
from analysis.estimate import causes as causes
from analysis.estimate import estimate as estimate
from analysis.estimate import figures as figures
from analysis.estimate.metrics import METRICS as METRICS
from analysis.estimate.scenario import Scenario as Scenario
from analysis.explore.constraint import Constraint as Constraint
from analysis.explore.search.candidates import front as front
from analysis.explore.search.catalogue_sweep import shipped_workload as shipped_workload
from analysis.explore.tuning import knob_bench as knob_bench

# Measurements, and the fit of rates to them.
from analysis.validation import efficiency_fit as efficiency_fit
from analysis.validation import measured_rows as measured_rows
from analysis.validation import row_validation as row_validation
from analysis.validation import tool_results as tool_results

# Devices, architectures and runtimes.
from hardware import demand as demand
from hardware import device_catalog as device_catalog
from hardware import device_file as device_file
from hardware import execute as execute
from hardware import known_architectures as known_architectures
from hardware import what_if as what_if
from hardware.architecture import Architecture as Architecture
from hardware.area import area as area
from hardware.device import Device as Device
from hardware.device_toml import device_toml as device_toml
from hardware.engines import runtime as runtime
from hardware.mapping import common as common
from hardware.mapping import tiling as tiling
from hardware.setup import Setup as Setup

# Errors, files, numbers and words.
from hardware import file_access as file_access
from hardware import places as places
from hardware import quantity as quantity
from hardware import sentence as sentence
from hardware.errors import RequestError as RequestError
from hardware.grouping import group_by as group_by
from hardware.memo import memoize as memoize

# Verbs and views.
from hwexplorer import declare as declare
from hwexplorer import engine as engine
from hwexplorer import options as options
from hwexplorer import state as state
from hwexplorer.export import files as files
from hwexplorer.headless import answers as answers
from hwexplorer.process import output as output
from hwexplorer.views import measured_times as measured_times
