/** Reader of verl's rollout dumps: `1.jsonl`, `2.jsonl` of `trainer.rollout_data_dir`. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { type ForeignReader, NO_TOKENS, numbering, numbersOf, parseForeignLines, readEach } from './foreignLog.js'
import type { ViewedTurn } from './viewedTurn.js'

const rowSchema = z.looseObject({
  input: z.string(),
  output: z.string(),
  score: z.number(),
  step: z.number().optional(),
  gts: z.unknown().optional(),
})

const OTHER = new Set(['step', 'score', 'gts'])

const textOrNull = (value: unknown): string | null => {
  if (value === undefined || value === null) return null
  return typeof value === 'string' ? value : JSON.stringify(value)
}

const turnsOf = (rows: readonly z.infer<typeof rowSchema>[], step: number): readonly ViewedTurn[] => {
  const group = numbering()
  return rows.map(
    (row, i): ViewedTurn => ({
      ...NO_TOKENS,
      step: row.step ?? step,
      trajectoryId: String(i),
      turn: 0,
      groupId: String(group(row.input)),
      query: row.input,
      answer: textOrNull(row.gts),
      tokens: [row.output],
      length: row.output.length,
      parts: numbersOf(row, OTHER),
      reward: row.score,
      advantage: null,
    }),
  )
}

/** The step of a file, by its name. */
const stepOf = (path: string): number => Number.parseInt(path.split(/[/\\]/).at(-1) ?? '', 10) || 0

const FORMAT = 'verl rollouts'

export const verlReader: ForeignReader = {
  format: FORMAT,
  hasName: (name) => /^\d+\.jsonl$/.test(name),
  unit: 'folder',
  read: (files, paths) =>
    pipe(
      readEach(
        [...paths].sort((a, b) => stepOf(a) - stepOf(b)),
        (path) =>
          pipe(
            files.readText(path),
            TE.chainEitherKW((text) => parseForeignLines(FORMAT, { where: path, text, schema: rowSchema })),
            TE.map((rows) => turnsOf(rows, stepOf(path))),
          ),
      ),
      TE.map((turns) => ({ model: null, data: null, startedAt: null, settings: {}, turns })),
    ),
}
