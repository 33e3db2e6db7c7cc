"""Names that the verbs of the annexes use."""

from __future__ import annotations

from hwexplorer.extend import declare, files, measured_times, options, state

Rows = declare.Rows
FORMATS = files.FORMATS
TERMS = measured_times.TERMS
compare_times = measured_times.compare_times
option = options.option
whole_list = options.whole_list
State = state.State
replace = state.replace
