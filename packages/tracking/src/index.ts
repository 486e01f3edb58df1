/**
 * For those who follow runs elsewhere: trackers and sinks for TensorBoard, MLflow, Trackio,
 * Weights & Biases, Prometheus, OpenTelemetry, JSON lines and the console.
 *
 * @module
 */
export { type ConsoleOptions, consoleSink } from './console.js'
export { parseEventLine } from './eventLines.js'
export { jsonlSink } from './jsonl.js'
export { type LoopEvent, type LoopOptions, type LoopTracker, trackLoop } from './loop.js'
export { type MetricsServer, type MetricsServerOptions, type ReadableMetrics, serveMetrics } from './metricsServer.js'
export { type MlflowOptions, mlflowSink } from './mlflow.js'
export { type OpenTelemetryFailure, type OpenTelemetryOptions, openTelemetrySink } from './openTelemetry.js'
export { type PrometheusOptions, type PrometheusSink, prometheusSink } from './prometheus.js'
export {
  type PhaseSpan,
  type RunStatus,
  type SampleText,
  type SettingValue,
  type Sink,
  type SinkFailure,
  sinkFailure,
  type TrackedEvent,
} from './sink.js'
export { tensorBoardSink } from './tensorBoard.js'
export type { TrackedSession } from './trackedEvents.js'
export { type TrackedRunOptions, trackedRun } from './trackedRun.js'
export { makeTracker, type SinkReport, type Tracker, type TrackerOptions } from './tracker.js'
export { type TrackioOptions, trackioSink } from './trackio.js'
export { type WandbOptions, wandbSink } from './wandb.js'
