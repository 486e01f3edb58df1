/** Where names are looked up while a template runs, and what is written down on the way. */

import { joinRanges, type TextRange } from '../textRange.js'
import { templateWork } from './budget.js'
import { ownText } from './origin.js'
import type { TemplateValue, TracedValue } from './value.js'

/** Text that grows. Only the main one is the result; blocks, macros and calls have their own. */
export interface TemplateWriter {
  /** Adds a text; `given` are its ranges that the template did not write itself. */
  readonly write: (text: string, given: readonly TextRange[]) => void
  readonly text: () => string
  readonly given: () => readonly TextRange[]
}

/** A sink without text. */
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

/** The value of a name: that of the nearest scope that has it. */
export const lookUp = (scope: Scope, name: string): TracedValue => {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent) {
    const found = at.variables.get(name)
    if (found !== undefined) return found
  }
  return ownText(undefined)
}
