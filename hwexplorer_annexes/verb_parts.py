"""Names that the verbs of the annexes use."""

from hwexplorer.extend import declare, files, options, state

Rows = declare.Rows
FORMATS = files.FORMATS
option = options.option
whole_list = options.whole_list
State = state.State
replace = state.replace
