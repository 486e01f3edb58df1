/** The measurements of a recipe's steps, and the record that `tandem bench` prints. */
import { median } from '@tandem-rl/base'
import { host, liveUsage } from '@tandem-rl/base/host'
import { liveTensors } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { PhaseSeconds, StepRecord } from 'tandem-rl/run'
import type { Benchmark, BenchmarkRound } from '../benchmark.js'

const PHASES = ['generation', 'environment', 'reference', 'training', 'weightSync'] as const

const total = (seconds: PhaseSeconds): number => PHASES.reduce((sum, phase) => sum + (seconds[phase] ?? 0), 0)

/** Returns the medians of the phases that the steps have. */
const phasesOf = (steps: readonly StepRecord[]): Readonly<Record<string, number>> =>
  Object.fromEntries(
    PHASES.flatMap((phase) => {
      const seconds = steps.flatMap((step) => step.seconds[phase] ?? [])
      return seconds.length === 0 ? [] : [[phase, median(seconds)] as const]
    }),
  )

/** A step with its measurements. The rest is the time of the step that is part of no phase. */
export interface MeasuredStep {
  readonly step: StepRecord
  readonly round: BenchmarkRound
}

/**
 * Returns a function that measures the time and resources since its last call as those of a step.
 */
export const stepMeter = (): ((step: StepRecord) => MeasuredStep) => {
  let [started, cpuMs] = [performance.now(), liveUsage.cpuMs()]
  return (step) => {
    const [now, cpuNow] = [performance.now(), liveUsage.cpuMs()]
    const [seconds, cpuSeconds] = [(now - started) / 1000, (cpuNow - cpuMs) / 1000]
    ;[started, cpuMs] = [now, cpuNow]
    const { generation, environment } = step.seconds
    const round = {
      units: 1,
      seconds,
      cpuSeconds,
      policySeconds: generation,
      envSeconds: environment,
      restSeconds: Math.max(0, seconds - total(step.seconds)),
      inFlight: { mean: 0, most: 0 },
      residentBytes: liveUsage.residentBytes(),
      heapBytes: liveUsage.heapBytes(),
      tensors: liveTensors().count,
    }
    return { step, round }
  }
}

/** Summarizes the measured steps as one record. */
export const recordOf = (recipe: string, measured: readonly MeasuredStep[], benchmark: Benchmark) => {
  const steps = measured.map(({ step }) => step)
  const seconds = steps.map((step) => total(step.seconds))
  const { cpu, node } = host()
  return {
    recipe,
    steps: steps.length,
    cpu,
    node,
    secondsPerStep: { median: median(seconds), least: Math.min(...seconds), most: Math.max(...seconds) },
    phases: phasesOf(steps),
    tokensPerSecond: median(steps.map(({ update }, i) => (update.tokens ?? 0) / Math.max(seconds[i]!, 1e-9))),
    peakResidentBytes: process.resourceUsage().maxRSS * 1024,
    benchmark,
  }
}

/** The line that the command prints for one recipe. */
export type RecipeBenchmark = ReturnType<typeof recordOf>
