/** `GET /metrics`: the engine's counters in Prometheus's text format, under vLLM's names. */
import type { EngineMetrics, FinishReason, Histogram } from '@tandem-rl/text'
import { AggregatorRegistry } from 'prom-client'

type Labels = Readonly<Record<string, string>>

/** A metric in the format of Prometheus's client. */
interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly aggregator: 'sum'
  readonly values: readonly { readonly value: number; readonly labels: Labels; readonly metricName?: string }[]
}

const family = (name: string, help: string, type: Family['type'], values: Family['values']): Family => ({
  name,
  help,
  type,
  aggregator: 'sum',
  values,
})

const histogram = (name: string, help: string, labels: Labels, { bounds, counts, sum, count }: Histogram): Family =>
  family(name, help, 'histogram', [
    ...bounds.map((le, i) => ({
      labels: { ...labels, le: String(le) },
      value: counts[i] ?? 0,
      metricName: `${name}_bucket`,
    })),
    { labels: { ...labels, le: '+Inf' }, value: count, metricName: `${name}_bucket` },
    { labels, value: sum, metricName: `${name}_sum` },
    { labels, value: count, metricName: `${name}_count` },
  ])

const FINISHES: readonly FinishReason[] = ['stop', 'length', 'abort', 'error']

const counters = (metrics: EngineMetrics, labels: Labels): readonly Family[] => {
  const one = (name: string, help: string, value: number): Family =>
    family(`vllm:${name}_total`, help, 'counter', [{ labels, value }])
  return [
    one('num_preemptions', 'Cumulative number of preemptions.', metrics.preemptions),
    one('prefix_cache_queries', 'Prompt tokens looked up in the prefix cache.', metrics.prefixQueries),
    one('prefix_cache_hits', 'Prompt tokens found in the prefix cache.', metrics.prefixHits),
    one('prompt_tokens', 'Prompt tokens computed or found.', metrics.promptTokens),
    one('generation_tokens', 'Tokens sampled.', metrics.generatedTokens),
    family(
      'vllm:request_success_total',
      'Completions that ended, by reason.',
      'counter',
      FINISHES.map((reason) => ({ labels: { ...labels, finished_reason: reason }, value: metrics.finished[reason] })),
    ),
  ]
}

const gauges = (metrics: EngineMetrics, labels: Labels): readonly Family[] => {
  const one = (name: string, help: string, value: number): Family =>
    family(`vllm:${name}`, help, 'gauge', [{ labels, value }])
  return [
    one('num_requests_running', 'Requests being decoded.', metrics.running),
    one('num_requests_waiting', 'Requests waiting.', metrics.waiting),
    one('kv_cache_max_bytes', 'Largest memory for keys and values.', metrics.cacheBytes),
    one('kv_cache_usage_perc', 'Share of the memory for keys and values in use, 0 to 1.', metrics.cacheUsage),
  ]
}

const histograms = (metrics: EngineMetrics, labels: Labels): readonly Family[] => [
  histogram('vllm:time_to_first_token_seconds', 'Time to the first token.', labels, metrics.timeToFirstToken),
  histogram('vllm:inter_token_latency_seconds', 'Time between tokens.', labels, metrics.interTokenLatency),
  histogram('vllm:request_queue_time_seconds', 'Time spent waiting.', labels, metrics.queueTime),
  histogram('vllm:e2e_request_latency_seconds', 'Time from arrival to end.', labels, metrics.endToEnd),
]

/** An engine to report: its metrics, the name of its model and its adapters. */
export interface ReportedEngine {
  readonly metrics: EngineMetrics
  readonly model: string
  readonly adapters: readonly string[]
  /** Requests whose `tool_choice: "required"` was treated as "auto", if the server does that. */
  readonly relaxedChoices?: number
}

const familiesOf = ({ metrics, model, adapters, relaxedChoices }: ReportedEngine): readonly Family[] => {
  const labels = { model_name: model, engine: '0' }
  const adapterInfo = family('vllm:lora_requests_info', 'Adapters that are loaded.', 'gauge', [
    {
      labels: {
        max_lora: String(adapters.length),
        running_lora_adapters: adapters.join(','),
        waiting_lora_adapters: '',
      },
      value: 1,
    },
  ])
  const relaxed =
    relaxedChoices === undefined
      ? []
      : [
          family(
            'tandem:tool_choice_required_as_auto_total',
            'Requests with "required" treated as "auto".',
            'counter',
            [{ labels, value: relaxedChoices }],
          ),
        ]
  return [
    ...gauges(metrics, labels),
    ...counters(metrics, labels),
    ...histograms(metrics, labels),
    adapterInfo,
    ...relaxed,
  ]
}

/**
 * Returns the metrics of engines as the answer of `/metrics`.
 *
 * Units    seconds, tokens, requests.
 */
export const metricsAnswer = async (engines: readonly ReportedEngine[]): Promise<Response> => {
  const text = await AggregatorRegistry.aggregate(engines.map((engine) => [...familiesOf(engine)])).metrics()
  return new Response(text, { headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } })
}
