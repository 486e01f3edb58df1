/** The number of lines in the old style that each area may still have. It may only fall. */
import type { ProseMark } from './prose.js'

export const BUDGET_FILE = 'test/proseBudget.json'

export type ProseBudget = Readonly<Record<string, Readonly<Record<ProseMark, number>>>>

/** Reads the budget, which is our own file. */
export const readBudget = (json: string): ProseBudget => JSON.parse(json) as ProseBudget

const NONE = { opening: 0, words: 0, long: 0 }

/** The lines beyond the budget, by area and mark. */
export const exceeded = (budget: ProseBudget, counts: ProseBudget): readonly string[] =>
  Object.entries(counts).flatMap(([area, marks]) =>
    (['opening', 'words', 'long'] as const).flatMap((mark) => {
      const limit = (budget[area] ?? NONE)[mark]
      return marks[mark] > limit
        ? [`${area} has ${marks[mark]} lines marked '${mark}', and its budget is ${limit}`]
        : []
    }),
  )

/** The budget with every number that the counts allow to fall. */
export const lowered = (budget: ProseBudget, counts: ProseBudget): ProseBudget =>
  Object.fromEntries(
    Object.entries(budget).flatMap(([area, limits]) => {
      const found = counts[area]
      if (found === undefined) return []
      const least = (mark: ProseMark): number => Math.min(limits[mark], found[mark])
      return [[area, { opening: least('opening'), words: least('words'), long: least('long') }]]
    }),
  )
