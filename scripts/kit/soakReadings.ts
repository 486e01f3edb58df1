/** Readings of a long run's resources by the minute, and the test for growth. */
import { median } from '@tandem-rl/base'
import { lineChart, type Panel } from '../../packages/bench/src/lineChart.js'

/** The resources of a process between two rounds, after garbage collection. */
export interface Reading {
  readonly minutes: number
  /** Rounds that were done before. */
  readonly rounds: number
  readonly memory: { readonly rss: number; readonly heapUsed: number; readonly external: number }
  /** Live tensors and the values that own them. */
  readonly tensors: { readonly count: number; readonly bytes: number; readonly owned: number }
  /** Open file descriptors by kind: file, socket, pipe and others. */
  readonly descriptors: Readonly<Record<string, number>>
  /** Handles that keep the event loop alive, by kind. */
  readonly resources: Readonly<Record<string, number>>
}

/** The quantities of a reading that are tested. */
const MEASURES = ['rss', 'javascript', 'tensors', 'tensorBytes', 'owned', 'descriptors', 'resources'] as const
type Measure = (typeof MEASURES)[number]

const sum = (counts: Readonly<Record<string, number>>): number => Object.values(counts).reduce((a, b) => a + b, 0)
const megabytes = (bytes: number): number => bytes / 2 ** 20

/** The numbers that are judged: memory in MiB, all else counted. */
const measuresOf = ({ memory, tensors, descriptors, resources }: Reading): Readonly<Record<Measure, number>> => ({
  rss: megabytes(memory.rss),
  javascript: megabytes(memory.heapUsed + memory.external),
  tensors: tensors.count,
  tensorBytes: megabytes(tensors.bytes),
  owned: tensors.owned,
  descriptors: sum(descriptors),
  resources: sum(resources),
})

/**
 * Maximum growth per hour. Counts must not grow at all. Allocators keep memory that they once had,
 * so rss has slack.
 */
const LIMITS: Readonly<Record<Measure, number>> = {
  ...{ rss: 48, javascript: 4, tensors: 0, tensorBytes: 0, owned: 0, descriptors: 0, resources: 0 },
}

/** Minutes in which every kind of round has been seen, and the allocator has found its pace. */
export const WARM_UP_MINUTES = 10

/**
 * Minutes of readings after the warm-up that the slopes of memory need; fewer are no evidence for
 * an hour.
 */
const FEWEST_MINUTES = 20

/**
 * Computes the slope of a line through points: the median of the slopes between any two of them,
 * which few outliers do not change.
 *
 * `b = median over i < j of (y_j - y_i) / (x_j - x_i)`; 0 for fewer than two points.
 *
 * Source   Theil 1950, Sen 1968.
 */
export const medianSlope = (points: readonly (readonly [x: number, y: number])[]): number => {
  const slopes = points.flatMap(([x, y], i) =>
    points.slice(i + 1).flatMap(([nextX, nextY]) => (nextX === x ? [] : [(nextY - y) / (nextX - x)])),
  )
  return slopes.length === 0 ? 0 : median(slopes)
}

export interface Verdict {
  readonly verdict: 'flat' | 'grows' | 'too short'
  readonly minutes: number
  readonly rounds: number
  /** Readings after the warm-up. */
  readonly readings: number
  /** In MiB, or as a number, by measure. */
  readonly perHour: Readonly<Record<Measure, number>>
  readonly limits: Readonly<Record<Measure, number>>
  /** The lowest and the highest of each measure after the warm-up. */
  readonly range: Readonly<Record<Measure, readonly [number, number]>>
  /** A quantity that grows by more than its limit. */
  readonly grows: readonly Measure[]
}

const byMeasure = <T>(of: (measure: Measure) => T): Readonly<Record<Measure, T>> =>
  Object.fromEntries(MEASURES.map((measure) => [measure, of(measure)])) as Record<Measure, T> // by MEASURES

/**
 * Tests whether the readings after the warm-up grow by more than the limits. Counts are tested for
 * runs of any length.
 */
export const verdictOf = (readings: readonly Reading[], warmUpMinutes = WARM_UP_MINUTES): Verdict => {
  const judged = readings.filter(({ minutes }) => minutes >= warmUpMinutes)
  const last = readings.at(-1)
  const points = (measure: Measure) =>
    judged.map((reading) => [reading.minutes / 60, measuresOf(reading)[measure]] as const)
  const perHour = byMeasure((measure) => Number(medianSlope(points(measure)).toFixed(3)))
  const range = byMeasure((measure) => {
    const values = points(measure).map(([, y]) => y)
    return [Math.min(...values), Math.max(...values)] as const
  })
  const span = (last?.minutes ?? 0) - (judged[0]?.minutes ?? 0)
  const isShort = judged.length < 3 || span < FEWEST_MINUTES
  const grows = MEASURES.filter(
    (measure) => perHour[measure] > LIMITS[measure] && !(isShort && (measure === 'rss' || measure === 'javascript')),
  )
  return {
    verdict: grows.length > 0 ? 'grows' : isShort ? 'too short' : 'flat',
    ...{ minutes: last?.minutes ?? 0, rounds: last?.rounds ?? 0, readings: judged.length },
    ...{ perHour, limits: LIMITS, range, grows },
  }
}

/** Memory, tensors and handles over time. */
export const soakPicture = (readings: readonly Reading[]): string => {
  const series = (name: string, measure: Measure): Panel['series'][number] => ({
    name,
    points: readings.map((reading) => [reading.minutes, measuresOf(reading)[measure]]),
  })
  const panel = (title: string, yLabel: string, list: Panel['series']): Panel => {
    const highest = Math.max(1, ...list.flatMap(({ points }) => points.map(([, y]) => y)))
    return { title, xLabel: 'minutes', yLabel, series: list, yRange: [0, 1.15 * highest] }
  }
  return lineChart({
    title: 'A long run of the whole loop',
    description: 'Memory of the process, live tensors and open handles, each minute between two rounds.',
    panels: [
      panel('memory', 'MiB', [series('resident', 'rss'), series('JavaScript and buffers', 'javascript')]),
      panel('held between rounds', 'count', [
        ...[series('file descriptors', 'descriptors'), series('active resources', 'resources')],
        ...[series('live tensors', 'tensors'), series('owned values', 'owned')],
      ]),
    ],
  })
}
