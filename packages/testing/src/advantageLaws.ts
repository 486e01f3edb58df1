/** Laws for advantages of batches. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { decodeTensorDict, encodeTensorDict } from 'tandem-rl/files'
import { concat, type Data, data, get, type Ragged, ragged, raggedRow, TensorDict, take } from 'tandem-rl/tensordict'
import { type Law, require } from './law.js'
import { requireRight } from './results.js'

/** The entries of a collected batch that advantages read. */
export type RatedBatch = TensorDict<{
  readonly trajectoryId: Data<string>
  readonly turn: Data<number>
  readonly groupId: Data<string>
  readonly tokens: TensorDict<{ readonly response: Ragged<'int32'> }>
  readonly masks: TensorDict<{ readonly loss: Ragged<'bool'> }>
  readonly logProbs: TensorDict<{ readonly response: Ragged<'float32'> }>
  readonly oldLogProbs: TensorDict<{ readonly response: Ragged<'float32'> }>
  readonly values: Ragged<'float32'>
  readonly next: TensorDict<{ readonly reward: tf.Tensor }>
}>

/** One turn of a batch as plain numbers. */
export interface RatedTurn {
  readonly trajectoryId: string
  readonly turn: number
  readonly groupId: string
  readonly reward: number
  readonly mask: readonly number[]
  readonly numbers: readonly number[]
}

const anyTurns = (trajectoryId: string, groupId: string): fc.Arbitrary<readonly RatedTurn[]> =>
  fc
    .array(
      fc.record({
        reward: fc.integer({ min: -4, max: 4 }),
        tokens: fc.array(fc.record({ on: fc.integer({ min: 0, max: 1 }), x: fc.integer({ min: -9, max: 0 }) }), {
          maxLength: 3,
        }),
      }),
      { minLength: 1, maxLength: 3 },
    )
    .map((turns) =>
      turns.map(({ reward, tokens }, turn) => ({
        trajectoryId,
        turn,
        groupId,
        reward,
        mask: tokens.map(({ on }) => on),
        numbers: tokens.map(({ x }) => x / 4),
      })),
    )

/**
 * Draws turns of groups of one size: trajectories of one to three turns, with masked tokens and
 * turns without tokens.
 *
 * @example
 * fc.sample(anyRatedTurns(2), { numRuns: 1 })[0][0][0].turn // 0
 */
export const anyRatedTurns = (groupSize: number): fc.Arbitrary<readonly (readonly RatedTurn[])[]> =>
  fc
    .integer({ min: 1, max: 4 })
    .chain((groups) =>
      fc.tuple(
        ...Array.from({ length: groups * groupSize }, (_, i) =>
          anyTurns(`0123456789abcdef:${i}`, `0123456789abcdef:g${Math.floor(i / groupSize)}`),
        ),
      ),
    )

/** Makes a batch of turns, in order. Its tensors belong to the enclosing scope. */
export const ratedBatch = (turns: readonly RatedTurn[]): RatedBatch => {
  const numbers = ragged(
    'float32',
    turns.map((turn) => turn.numbers),
  )
  return TensorDict(
    {
      trajectoryId: data(turns.map(({ trajectoryId }) => trajectoryId)),
      turn: data(turns.map(({ turn }) => turn)),
      groupId: data(turns.map(({ groupId }) => groupId)),
      tokens: {
        response: ragged(
          'int32',
          turns.map(({ mask }) => mask),
        ),
      },
      masks: {
        loss: ragged(
          'bool',
          turns.map(({ mask }) => mask),
        ),
      },
      logProbs: { response: numbers },
      oldLogProbs: { response: numbers },
      values: numbers,
      next: {
        reward: tf.tensor1d(
          turns.map(({ reward }) => reward),
          'float32',
        ),
      },
    },
    [turns.length],
  )
}

/** An advantage under test. */
export interface AdvantageSample {
  readonly advantage: (batch: RatedBatch) => TensorDict<{ readonly advantage: Ragged<'float32'> }>
  /** See `Advantage.over`. */
  readonly over: 'group' | 'batch'
  /** Number of trajectories in a group. */
  readonly groupSize: number
}

const shown = (row: readonly number[] | undefined): string => (row === undefined ? 'no row' : `[${row.join(', ')}]`)

type Rows = ReadonlyMap<string, readonly number[]>

/** Returns advantages by trajectory and turn. Throws if a duplicated row has two different ones. */
const ratedRows = (rated: TensorDict): Rows => {
  const batch = rated as RatedBatch & TensorDict<{ readonly advantage: Ragged<'float32'> }> // from an advantage
  const [ids, turns, leaf] = [get(batch, 'trajectoryId'), get(batch, 'turn'), get(batch, 'advantage')]
  const rows = new Map<string, readonly number[]>()
  for (const [i, id] of ids.items.entries()) {
    const name = `${id} turn ${turns.items.get(i)}`
    const row = Array.from(raggedRow(leaf, i))
    const before = rows.get(name)
    require(before === undefined || shown(before) === shown(row), () =>
      `${name} has ${shown(before)} and ${shown(row)}`)
    rows.set(name, row)
  }
  return rows
}

const requireSame = (expected: Rows, actual: Rows): void => {
  for (const [name, row] of actual)
    require(shown(expected.get(name)) === shown(row), () =>
      `${name}: expected ${shown(expected.get(name))}, got ${shown(row)}`)
}

const joined = (parts: readonly Rows[]): Rows => new Map(parts.flatMap((part) => [...part]))

/** Returns the row numbers of each group. */
const rowsOfGroups = (batch: RatedBatch): readonly (readonly number[])[] => {
  const groups = new Map<string, number[]>()
  for (const [i, id] of get(batch, 'groupId').items.entries()) groups.set(id, [...(groups.get(id) ?? []), i])
  return [...groups.values()]
}

/**
 * Returns the laws of an advantage: rows keep their advantages when batches are permuted, joined,
 * split, sampled or stored. Splitting and joining are checked only for advantages over groups.
 *
 * @example
 * advantageLaws({ advantage: (batch) => batch, over: 'batch', groupSize: 2 }).length // 4
 */
export const advantageLaws = (
  { advantage, over, groupSize }: AdvantageSample,
  { numRuns = 20 }: { readonly numRuns?: number } = {},
): readonly Law[] => {
  const rated = (batch: RatedBatch): Rows => ratedRows(advantage(batch))
  const law = (name: string, check: (batch: RatedBatch, seed: number) => void): Law => ({
    name,
    check: () =>
      fc.assert(
        fc.property(anyRatedTurns(groupSize), fc.nat(), (turns, seed) =>
          scope(() => check(ratedBatch(turns.flat()), seed)),
        ),
        { numRuns },
      ),
  })
  const order = (count: number, seed: number): readonly number[] =>
    fc.sample(fc.shuffledSubarray([...Array(count).keys()], { minLength: count, maxLength: count }), {
      seed,
      numRuns: 1,
    })[0]!
  const any = [
    law('the batch of an advantage has its rows, or those of the groups that it keeps', (batch) => {
      const kept = advantage(batch)
      const rows = ratedRows(kept)
      const response = get(batch, 'tokens', 'response')
      const mask = get(batch, 'masks', 'loss')
      const ids = get(batch, 'trajectoryId').items
      for (const [i, id] of ids.entries()) {
        const row = rows.get(`${id} turn ${get(batch, 'turn').items.get(i)}`)
        if (row === undefined) continue
        require(row.length === raggedRow(response, i).length, () => `row ${i} has ${row.length} advantages`)
        const on = raggedRow(mask, i)
        require(row.every((a, t) => on[t] === 1 || a === 0), () => `row ${i} has an advantage under the mask`)
      }
    }),
    law('the order of rows changes nothing', (batch, seed) => {
      const permuted = take(batch, order(batch.batchShape[0]!, seed))
      requireSame(rated(batch), rated(permuted))
    }),
    law('rows that occur twice count once', (batch, seed) => {
      const all = order(batch.batchShape[0]!, seed)
      requireSame(rated(batch), rated(take(batch, [...all, ...all.slice(seed % all.length)])))
    }),
    law('a stored batch has the advantages of the batch', (batch) => {
      const bytes = encodeTensorDict(batch)
      const stored = requireRight(decodeTensorDict(bytes)) as RatedBatch // the same entries
      requireSame(rated(batch), rated(stored))
    }),
  ]
  if (over === 'batch') return any
  return [
    ...any,
    law('groups have the same advantages alone, joined and in a sample', (batch, seed) => {
      const groups = rowsOfGroups(batch)
      const alone = groups.map((rows) => take(batch, rows))
      const whole = rated(batch)
      requireSame(whole, joined(alone.map(rated)))
      const chosen = order(groups.length, seed).slice(0, 1 + (seed % groups.length))
      requireSame(whole, rated(concat([...chosen, chosen[0]!].map((i) => alone[i]!))))
    }),
  ]
}
