/**
 * The lanes of an engine. Rows of one adapter and one length class are in one lane. All lanes of an
 * adapter are decoded together.
 */
import type { Params } from '../transformer/params.js'
import { lengthClass } from './plan.js'
import type { Decoding, KeyValues, Lane, ModelRunner, NextToken, StepRow } from './runner/modelRunner.js'

/** Rows that are not in a lane yet. */
export interface Arriving {
  readonly group: string
  readonly rows: number
  /** Length of the longest row in tokens. */
  readonly length: number
}

/** The input of a row to a decoding step. */
export type StepInput = Omit<StepRow, 'slot'>

/** Rows in lanes. A mutable value. */
export interface LaneSet<R> {
  /** Adds a row to its lane. `group` separates rows with different parameters. */
  readonly place: (row: R, group: string, past: readonly KeyValues[]) => void
  readonly remove: (row: R) => void
  readonly has: (row: R) => boolean
  readonly rows: () => readonly R[]
  /** Number of tokens whose keys and values a row has. */
  readonly length: (row: R) => number
  readonly keyValues: (row: R, from: number, to: number) => KeyValues
  /** Number of bytes held. */
  readonly bytes: () => number
  /** Number of bytes held if these rows were added and then every row grew by `growth` tokens. */
  readonly bytesWith: (arriving: readonly Arriving[], growth: number) => number
  /** Number of bytes of a new lane for `rows` rows with at most `length` tokens. */
  readonly bytesOfNew: (rows: number, length: number) => number
  /** Moves rows to the next class if one more token would exceed their class. */
  readonly promote: () => void
  /** Rebuilds lanes that hold more memory than their rows need. */
  readonly compact: () => void
  /** Returns the rows of each group, lane by lane. */
  readonly groups: () => ReadonlyMap<string, readonly R[]>
  /** Runs a decoding step for rows of one group. Returns their scores in the given order. */
  readonly step: (rows: readonly R[], step: LaneStep<R>) => readonly NextToken[]
  readonly release: () => void
}

/** A decoding step of rows in lanes. */
interface LaneStep<R> {
  readonly group: string
  readonly params: Params
  readonly input: (row: R) => StepInput
}

interface OpenLane<R> {
  readonly group: string
  readonly index: number
  lane: Lane
  readonly slots: Map<R, number>
}

/** The number of new rows of a lane, and the length of the longest. */
interface Demand {
  readonly rows: number
  readonly longest: number
}

const laneName = (group: string, index: number): string => `${index} ${group}`

const groupsOf = <R>(lanes: readonly OpenLane<R>[]): ReadonlyMap<string, readonly R[]> => {
  const found = new Map<string, R[]>()
  for (const { group, slots } of lanes) found.set(group, [...(found.get(group) ?? []), ...slots.keys()])
  return found
}

/** Runs a decoding step of rows that may be in several lanes. Returns their scores in order. */
const stepRows = <R>(
  seatOf: (row: R) => OpenLane<R>,
  rows: readonly R[],
  { decoding, params, input }: Omit<LaneStep<R>, 'group'> & { readonly decoding: Decoding },
): readonly NextToken[] => {
  const byLane = new Map<OpenLane<R>, number[]>()
  for (const [i, row] of rows.entries()) {
    const seat = seatOf(row)
    const places = byLane.get(seat)
    if (places === undefined) byLane.set(seat, [i])
    else places.push(i)
  }
  const parts = [...byLane].map(([{ lane, slots }, places]) => ({
    lane,
    rows: places.map((i) => ({ slot: slots.get(rows[i]!)!, ...input(rows[i]!) })),
  }))
  const scores = decoding.step(params, parts)
  const inOrder: NextToken[] = []
  for (const [k, place] of [...byLane.values()].flat().entries()) inOrder[place] = scores[k]!
  return inOrder
}

/**
 * Makes an empty set of lanes. A lane is made for its first row and released with its last one.
 * Rows of `baseGroup` are decoded with the runner's served weights.
 *
 * Effects  a mutable value. Errors of the runner are passed on, and leave the lanes in the state at
 *          that time.
 */
export const makeLaneSet = <R>(runner: ModelRunner, baseGroup: string): LaneSet<R> => {
  // The base weights are served until others are loaded. Adapters take turns.
  const [base, merged] = [runner.makeDecoding(runner.servedWeights.steps), runner.makeDecoding('fed')]
  const lanes = new Map<string, OpenLane<R>>()
  const seats = new Map<R, OpenLane<R>>()
  const empty = runner.makeLane() // never holds a row; used to compute the size of new lanes

  const longestOf = ({ lane, slots }: OpenLane<R>): number =>
    [...slots.values()].reduce((longest, slot) => Math.max(longest, lane.length(slot)), 0)

  const insert = (row: R, group: string, past: readonly KeyValues[]): void => {
    const length = past.reduce((sum, part) => sum + part.length, 0)
    const index = lengthClass(length + 1) // the next step adds a token before rows are moved
    const name = laneName(group, index)
    const open = lanes.get(name) ?? { group, index, lane: runner.makeLane(), slots: new Map<R, number>() }
    lanes.set(name, open)
    open.slots.set(row, open.lane.insert(past))
    seats.set(row, open)
  }

  const takeOut = (row: R): void => {
    const open = seats.get(row)!
    const slot = open.slots.get(row)!
    open.slots.delete(row)
    seats.delete(row)
    if (open.slots.size > 0) open.lane.remove(slot)
    else {
      lanes.delete(laneName(open.group, open.index))
      open.lane.release()
    }
  }

  /** Returns the additional demand on each lane. */
  const demands = (arriving: readonly Arriving[], growth: number): ReadonlyMap<string, Demand> => {
    const found = new Map<string, Demand>()
    const ask = (name: string, rows: number, longest: number): void => {
      const known = found.get(name) ?? { rows: 0, longest: 0 }
      found.set(name, { rows: known.rows + rows, longest: Math.max(known.longest, longest) })
    }
    for (const [name, open] of lanes) {
      ask(name, 0, 1)
      for (const slot of open.slots.values()) {
        const length = open.lane.length(slot) + growth
        const index = lengthClass(length)
        if (index === open.index) ask(name, 0, length)
        else ask(laneName(open.group, index), 1, length)
      }
    }
    for (const { group, rows, length } of arriving) {
      ask(laneName(group, lengthClass(length + growth)), rows, length + growth)
    }
    return found
  }

  return {
    place: insert,
    remove: takeOut,
    has: (row) => seats.has(row),
    rows: () => [...seats.keys()],
    length: (row) => {
      const open = seats.get(row)!
      return open.lane.length(open.slots.get(row)!)
    },
    keyValues: (row, from, to) => {
      const open = seats.get(row)!
      return open.lane.keyValues(open.slots.get(row)!, from, to)
    },
    bytes: () => [...lanes.values()].reduce((sum, { lane }) => sum + lane.bytes(), 0),
    bytesWith: (arriving, growth) => {
      let sum = 0
      for (const [name, { rows, longest }] of demands(arriving, growth)) {
        const lane = lanes.get(name)?.lane
        sum += lane === undefined ? empty.bytesWith(rows, longest) : lane.bytesWith(rows, longest)
      }
      return sum
    },
    bytesOfNew: (rows, length) => empty.bytesWith(rows, length),
    promote: () => {
      for (const open of [...lanes.values()]) {
        for (const [row, slot] of [...open.slots]) {
          const length = open.lane.length(slot)
          if (lengthClass(length + 1) === open.index) continue
          const past = [open.lane.keyValues(slot, 0, length)]
          takeOut(row)
          insert(row, open.group, past)
        }
      }
    },
    compact: () => {
      for (const open of lanes.values()) {
        if (open.lane.bytes() <= empty.bytesWith(open.slots.size, longestOf(open))) continue
        const lane = runner.makeLane()
        for (const [row, slot] of open.slots) {
          open.slots.set(row, lane.insert([open.lane.keyValues(slot, 0, open.lane.length(slot))]))
        }
        open.lane.release()
        open.lane = lane
      }
    },
    groups: () => groupsOf([...lanes.values()]),
    step: (rows, { group, ...step }) =>
      stepRows((row) => seats.get(row)!, rows, { ...step, decoding: group === baseGroup ? base : merged }),
    release: () => {
      for (const { lane } of lanes.values()) lane.release()
      lanes.clear()
      seats.clear()
      for (const owner of [empty, base, merged]) owner.release()
    },
  }
}
