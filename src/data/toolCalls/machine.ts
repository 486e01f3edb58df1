/** Automata that read calls of tools character by character. */
import type { ToolDelta } from './callObject.js'

/** One step of a machine over characters. `again` is read before what follows. */
export interface MachineStep<S> {
  readonly state: S
  readonly deltas: readonly ToolDelta[]
  readonly again?: string
}

/** A format of calls: an automaton over the characters of a text. */
export interface CallMachine<S> {
  readonly start: S
  readonly step: (state: S, character: string) => MachineStep<S>
  /** What is left when the text ends. */
  readonly end: (state: S) => readonly ToolDelta[]
}
