/** Models of log-probabilities for tests, and actions that they are asked about. */
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { LogProbModel } from '../../src/data/policy.js'
import { data, type Ragged, ragged, raggedRow, raggedRows } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'

/** A model by a function of each token, the tokens before it and the temperature. */
export const tableModel = (
  name: string,
  logProb: (id: number, before: readonly number[], temperature: number) => number,
): LogProbModel => ({
  name,
  score: (prompts, completions, temperature) =>
    TE.right(
      ragged(
        'float32',
        raggedRows(completions).map((row, i) =>
          row.map((id, t) => logProb(id, [...raggedRow(prompts, i), ...row.slice(0, t)], temperature)),
        ),
      ),
    ),
})

/** A model that answers with given rows, whatever it is asked. */
export const fixedModel = (name: string, rows: readonly (readonly number[])[]): LogProbModel => ({
  name,
  score: () => TE.right(ragged('float32', rows)),
})

/** A model that cannot be reached. */
export const deadModel = (name: string): LogProbModel => ({
  name,
  score: () => TE.left({ _tag: 'PolicyFailure', policy: name, reason: 'connection refused' }),
})

const sampling = (temperature: number) => ({ temperature, topK: null, topP: null, maxNewTokens: 8, minNewTokens: 0 })

/** What the engine says of how rows were sampled, one temperature for each. */
export const sampledAt = (...temperatures: readonly number[]) => data(temperatures.map(sampling))

export const idRows = (...rows: readonly ArrayLike<number>[]): Ragged<'int32'> => ragged('int32', rows)

/**
 * An action of token ids, at temperature 1, with the log-probabilities of a model of tokens alone.
 */
export const idAction = (
  rows: readonly (readonly number[])[],
  logProb: (id: number) => number = () => -1,
): TensorDict =>
  TensorDict(
    {
      tokens: { response: ragged('int32', rows) },
      logProbs: {
        response: ragged(
          'float32',
          rows.map((row) => row.map(logProb)),
        ),
      },
      sampling: sampledAt(...rows.map(() => 1)),
    },
    [rows.length],
  )
