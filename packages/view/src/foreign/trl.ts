/** Reader of TRL's completions: `completions/completions_00001.parquet` of `log_completions`. */
import { fileBytes } from '@tandem-rl/host'
import { readParquet } from '@tandem-rl/parquet'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { type ForeignReader, NO_TOKENS, numbering, numbersOf, readEach } from './foreignLog.js'
import type { ViewedTurn } from './viewedTurn.js'

const rowSchema = z.looseObject({
  step: z.number(),
  prompt: z.string(),
  completion: z.string(),
  advantage: z.number().nullable(),
})

const OTHER = new Set(['step', 'advantage'])

/**
 * Converts the rows of a file. The reward is the sum of the numeric columns, because TRL does not
 * log the weights of its reward functions.
 */
const turnsOf = (rows: readonly z.infer<typeof rowSchema>[]): readonly ViewedTurn[] => {
  const group = numbering()
  return rows.map((row, i): ViewedTurn => {
    const parts = numbersOf(row, OTHER)
    return {
      ...NO_TOKENS,
      step: row.step,
      trajectoryId: String(i),
      turn: 0,
      groupId: String(group(row.prompt)),
      query: row.prompt,
      answer: null,
      tokens: [row.completion],
      length: row.completion.length,
      parts,
      reward: Object.values(parts).reduce((sum, part) => sum + part, 0),
      advantage: row.advantage,
    }
  })
}

export const trlReader: ForeignReader = {
  format: 'TRL completions',
  hasName: (name) => /^completions_\d+\.parquet$/.test(name),
  unit: 'folder',
  read: (files, paths) =>
    pipe(
      readEach(paths, (path) =>
        pipe(
          fileBytes(path, files),
          TE.chainW((source) => readParquet(source, { schema: rowSchema })),
          TE.map(turnsOf),
        ),
      ),
      TE.map((turns) => ({ model: null, data: null, startedAt: null, settings: {}, turns })),
    ),
}
