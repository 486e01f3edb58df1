/**
 * Benchmarks of your own parts: for those who write a collector, an environment, a transform or a
 * reward and want to know its speed, its overhead and its memory, or whether a change made it
 * faster. `benchmark` measures one subject, `compareSubjects` two in turns, with a confidence
 * interval. To compare recipes as a whole, use `tandem bench RECIPE --against OTHER`.
 *
 * @module
 */
export {
  type Benchmark,
  type BenchmarkOptions,
  type BenchmarkRound,
  benchmark,
  type Comparison,
  type ComparisonOptions,
  compareSubjects,
} from './benchmark.js'
export { formatBenchmark } from './format.js'
export { benchmarkPicture } from './picture.js'
export type { SpeedRatio, SpeedVerdict, Spread } from './statistics.js'
export type { RoundContext, Subject } from './subject.js'
export {
  type CollectorSubjectOptions,
  collectorSubject,
  type EnvSubjectOptions,
  envSubject,
  type RewardSubjectOptions,
  rewardSubject,
  type TransformSubjectOptions,
  transformSubject,
} from './subjects.js'
