/** Counters and latencies of an engine. */
import type { EngineMetrics, FinishReason, Histogram } from '@tandem-rl/text'

/**
 * Upper bounds of histogram buckets in seconds, equal to those of vLLM's metrics of the same names.
 */
const LATENCY_BOUNDS = {
  timeToFirstToken: [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
  ],
  interTokenLatency: [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80],
  queueTime: [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680],
  endToEnd: [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680],
} as const satisfies Readonly<Record<string, readonly number[]>>

type Latency = keyof typeof LATENCY_BOUNDS

type Count = 'prefixQueries' | 'prefixHits' | 'promptTokens' | 'generatedTokens' | 'preemptions'

/** The gauges, which are supplied at every read. */
type Gauges = Pick<EngineMetrics, 'running' | 'waiting' | 'cacheUsage' | 'cacheBytes'>

/** The mutable counters of an engine. */
export interface MetricsRecorder {
  readonly add: (count: Count, amount: number) => void
  readonly finish: (reason: FinishReason) => void
  /** Records a latency in seconds. */
  readonly observe: (latency: Latency, seconds: number) => void
  /** Returns a snapshot of all metrics. */
  readonly read: (gauges: Gauges) => EngineMetrics
}

interface Observations {
  readonly observe: (value: number) => void
  readonly read: () => Histogram
}

const observations = (bounds: readonly number[]): Observations => {
  const counts = bounds.map(() => 0)
  let [sum, count] = [0, 0]
  return {
    observe: (value) => {
      sum += value
      count++
      for (const [i, bound] of bounds.entries()) if (value <= bound) counts[i] = counts[i]! + 1
    },
    read: () => ({ bounds, counts: [...counts], sum, count }),
  }
}

/**
 * Makes a recorder with all metrics at 0.
 *
 * @example
 * makeMetricsRecorder().read({ running: 0, waiting: 0, cacheUsage: 0, cacheBytes: 0 }).promptTokens // 0
 */
export const makeMetricsRecorder = (): MetricsRecorder => {
  const counts: Record<Count, number> = {
    prefixQueries: 0,
    prefixHits: 0,
    promptTokens: 0,
    generatedTokens: 0,
    preemptions: 0,
  }
  const finished: Record<FinishReason, number> = { stop: 0, length: 0, abort: 0, error: 0 }
  const latencies = {
    timeToFirstToken: observations(LATENCY_BOUNDS.timeToFirstToken),
    interTokenLatency: observations(LATENCY_BOUNDS.interTokenLatency),
    queueTime: observations(LATENCY_BOUNDS.queueTime),
    endToEnd: observations(LATENCY_BOUNDS.endToEnd),
  }
  return {
    add: (count, amount) => {
      counts[count] += amount
    },
    finish: (reason) => {
      finished[reason]++
    },
    observe: (latency, seconds) => latencies[latency].observe(seconds),
    read: (gauges) => ({
      ...gauges,
      ...counts,
      finished: { ...finished },
      timeToFirstToken: latencies.timeToFirstToken.read(),
      interTokenLatency: latencies.interTokenLatency.read(),
      queueTime: latencies.queueTime.read(),
      endToEnd: latencies.endToEnd.read(),
    }),
  }
}
