/** Where names are looked up while a template runs, and what is written down on the way. */
import type { Value } from './value.js'

/** Text that grows. Only the main one is the result; blocks, macros and calls have their own. */
export interface Sink {
  readonly write: (text: string) => void
  readonly text: () => string
}

/** A sink without text. */
export const emptySink = (): Sink => {
  let all = ''
  return {
    write: (text) => {
      all += text
    },
    text: () => all,
  }
}

/** A half-open range of the result, in UTF-16 code units. */
export interface TextRange {
  readonly start: number
  readonly end: number
}

/** What one item of a watched list wrote in a loop over it. */
export interface ItemRange extends TextRange {
  readonly item: number
}

/** What a `generation` block wrote; `isNested` if it stands in a macro or a block, so that its place in the result is not known. */
export interface GenerationRange extends TextRange {
  readonly isNested: boolean
}

/** One run of a template. */
export interface Run {
  readonly main: Sink
  /** Watched values and their indices. */
  readonly watched: ReadonlyMap<Value, number>
  readonly items: ItemRange[]
  readonly generations: GenerationRange[]
}

export interface Scope {
  readonly run: Run
  readonly variables: Map<string, Value>
  readonly parent: Scope | undefined
}

export const inside = (parent: Scope): Scope => ({ run: parent.run, variables: new Map(), parent })

/** The value of a name: that of the nearest scope that has it. */
export const lookUp = (scope: Scope, name: string): Value => {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent) {
    if (at.variables.has(name)) return at.variables.get(name)
  }
  return undefined
}
