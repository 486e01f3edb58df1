/** The scopes of names while a template runs, and the records of the run. */
import { joinRanges, type TextRange } from '../textRange.js'
import { templateWork } from './budget.js'
import { ownText } from './origin.js'
import type { TemplateValue, TracedValue } from './value.js'

/**
 * An append-only text. Only the main writer is the result; blocks, macros and calls have their own.
 */
export interface TemplateWriter {
  /** Adds a text. `given` holds its ranges that are input, not the template's own text. */
  readonly write: (text: string, given: readonly TextRange[]) => void
  readonly text: () => string
  readonly given: () => readonly TextRange[]
}

/** Creates an empty writer. */
export const emptySink = (): TemplateWriter => {
  let all = ''
  const ranges: TextRange[] = []
  return {
    write: (text, given) => {
      const { length } = all
      templateWork.spendCharacters(text.length)
      templateWork.spend(given.length)
      for (const { start, end } of given) ranges.push({ start: start + length, end: end + length })
      all += text
    },
    text: () => all,
    given: () => joinRanges(ranges),
  }
}

/** The range that one item of a watched list wrote in a loop over it. */
export interface ItemRange extends TextRange {
  readonly item: number
}

/**
 * The range of a `generation` block. `isNested` is true in a macro or another block, where the
 * position in the result is unknown.
 */
export interface GenerationRange extends TextRange {
  readonly isNested: boolean
}

/** One run of a template. */
export interface Run {
  readonly main: TemplateWriter
  /** Watched values and their indices. */
  readonly watched: ReadonlyMap<TemplateValue, number>
  readonly items: ItemRange[]
  readonly generations: GenerationRange[]
}

export interface Scope {
  readonly run: Run
  readonly variables: Map<string, TracedValue>
  readonly parent: Scope | undefined
}

export const inside = (parent: Scope): Scope => ({ run: parent.run, variables: new Map(), parent })

/** Looks up a name in the nearest scope that has it. */
export const lookUp = (scope: Scope, name: string): TracedValue => {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent) {
    const found = at.variables.get(name)
    if (found !== undefined) return found
  }
  return ownText(undefined)
}
