"""Names that the verbs of the annexes use."""

from hwexplorer.extend import declare, options, state

Rows = declare.Rows
option = options.option
State = state.State
replace = state.replace
