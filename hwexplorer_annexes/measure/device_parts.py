"""Names of the house that this annex uses."""

from hwexplorer.extend import (
    child_job,
    demand,
    device_catalog,
    device_file,
    document,
    efficiency_fit,
    known_architectures,
    quantity,
    reading_budget,
    row_validation,
    runtime,
    runtime_choice,
    sentence,
    workload,
)
from hwexplorer.extend import estimate as estimate_module

ProcessLimits = child_job.ProcessLimits
OpClass = demand.OpClass
device_in_mode = device_catalog.device_in_mode
Fact = device_file.Fact
column = document.column
record = document.record
FitProgress = efficiency_fit.Progress
FitRow = efficiency_fit.FitRow
FittedRate = efficiency_fit.FittedRate
make_fit_row = efficiency_fit.make_fit_row
predict_latency = efficiency_fit.predict_latency
shipped_latency = efficiency_fit.shipped_latency
estimate = estimate_module.estimate
TORCH_HOST = known_architectures.TORCH_HOST
MeasuredRow = row_validation.MeasuredRow
percent = quantity.percent
Progress = reading_budget.Progress
Runtime = runtime.Runtime
find_runtime = runtime_choice.find_runtime
runtime_of_mode = runtime_choice.runtime_of_mode
runtimes = runtime.runtimes
count_noun = sentence.count_noun
Floats = workload.Floats
Workload = workload.Workload
