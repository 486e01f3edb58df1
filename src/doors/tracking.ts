/**
 * For those who follow runs elsewhere: trackers and sinks for TensorBoard, MLflow, Trackio,
 * Weights & Biases, Prometheus, OpenTelemetry, JSON lines and the console.
 *
 * @module
 */
export { type ConsoleOptions, consoleSink } from '../tracking/console.js'
export { parseEventLine } from '../tracking/eventLines.js'
export { jsonlSink } from '../tracking/jsonl.js'
export { type LoopEvent, type LoopOptions, type LoopTracker, trackLoop } from '../tracking/loop.js'
export {
  type MetricsServer,
  type MetricsServerOptions,
  type ReadableMetrics,
  serveMetrics,
} from '../tracking/metricsServer.js'
export { type MlflowOptions, mlflowSink } from '../tracking/mlflow.js'
export { type OpenTelemetryFailure, type OpenTelemetryOptions, openTelemetrySink } from '../tracking/openTelemetry.js'
export { type PrometheusOptions, type PrometheusSink, prometheusSink } from '../tracking/prometheus.js'
export {
  type PhaseSpan,
  type RunStatus,
  type SampleText,
  type SettingValue,
  type Sink,
  type SinkFailure,
  sinkFailure,
  type TrackedEvent,
} from '../tracking/sink.js'
export { tensorBoardSink } from '../tracking/tensorBoard.js'
export type { TrackedSession } from '../tracking/trackedEvents.js'
export { type TrackedRunOptions, trackedRun } from '../tracking/trackedRun.js'
export { makeTracker, type SinkReport, type Tracker, type TrackerOptions } from '../tracking/tracker.js'
export { type TrackioOptions, trackioSink } from '../tracking/trackio.js'
export { type WandbOptions, wandbSink } from '../tracking/wandb.js'
