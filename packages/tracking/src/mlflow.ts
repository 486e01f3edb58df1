/** Logs events to a run on an MLflow server. */
import { type Cell, cell, checkOptions, type HttpRequest, type Transport } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { againAfter, type Call, type CallFailure, jsonNumber, type MetricNumber, serviceCall } from './httpSink.js'
import { MLFLOW_SINK_OPTIONS } from './optionKinds.js'
import { type RunStatus, type Sink, type SinkFailure, sinkFailure, type TrackedEvent } from './sink.js'

export interface MlflowOptions {
  readonly transport: Transport
  /** Name of the experiment, which is created if necessary. Default `tandem`. */
  readonly experiment?: string
  /** Unique id of the run in the experiment, the same in all sessions: letters, digits, dashes. */
  readonly runId: string
}

type MlflowRequest = Pick<HttpRequest, 'method' | 'path' | 'json' | 'repeat'>

/** The data of the run on the server. */
interface Known {
  readonly run: string
  /** The last step of each metric. */
  readonly steps: ReadonlyMap<string, number>
  readonly params: ReadonlyMap<string, string>
}

/** The data of one `log-batch` request. */
interface Batch {
  readonly metrics: readonly Metric[]
  readonly params: readonly Pair[]
  readonly tags: readonly Pair[]
}

interface Metric {
  readonly key: string
  readonly value: MetricNumber
  readonly timestamp: number
  readonly step: number
}

interface Pair {
  readonly key: string
  readonly value: string
}

/** Limits of `log-batch`: 100 parameters, 100 tags, and 1,000 items in total. */
const METRICS = 800
const PAIRS = 100
const KEY_LENGTH = 250
const VALUE_LENGTH = 5000

const pairs = z.array(z.object({ key: z.string(), value: z.string() })).default([])
const runSchema = z.object({
  info: z.object({ run_id: z.string() }),
  data: z
    .object({
      metrics: z.array(z.object({ key: z.string(), step: z.coerce.number().default(0) })).default([]),
      params: pairs,
    })
    .default({ metrics: [], params: [] }),
})
const experimentSchema = z.object({ experiment: z.object({ experiment_id: z.string() }) })
const createdExperimentSchema = z.object({ experiment_id: z.string() })
const createdRunSchema = z.object({ run: runSchema })
const foundRunsSchema = z.object({ runs: z.array(runSchema).default([]) })

/** Calls the server and parses its response. */
const call = <T>(transport: Transport, request: MlflowRequest, schema: z.ZodType<T>): Call<T> =>
  serviceCall(transport, 'MLflow')({ ...request, path: `/api/2.0/mlflow/${request.path}` }, schema)

const anything = z.unknown()

/** Returns the id of the experiment, and creates it if necessary. */
const experimentId = (transport: Transport, name: string): Call<string> =>
  pipe(
    call(
      transport,
      { method: 'GET', path: `experiments/get-by-name?experiment_name=${encodeURIComponent(name)}`, repeat: 'safe' },
      experimentSchema,
    ),
    TE.map(({ experiment }) => experiment.experiment_id),
    TE.orElse((failure) =>
      failure._tag === 'HttpFailure' && failure.status === 404
        ? pipe(
            call(
              transport,
              { method: 'POST', path: 'experiments/create', json: { name }, repeat: 'never' },
              createdExperimentSchema,
            ),
            TE.map((created) => created.experiment_id),
          )
        : TE.left(failure),
    ),
  )

const RUN_TAG = 'tandem.run'

const knownOf = ({ info, data }: z.infer<typeof runSchema>): Known => ({
  run: info.run_id,
  steps: new Map(data.metrics.map(({ key, step }) => [key, step])),
  params: new Map(data.params.map(({ key, value }) => [key, value])),
})

/** Finds the run by its tag, and creates it if necessary. */
const findRun = (
  { transport, experiment = 'tandem', runId }: MlflowOptions,
  about: { readonly name: string; readonly at: number },
): Call<Known> =>
  pipe(
    experimentId(transport, experiment),
    TE.chain((id) =>
      pipe(
        call(
          transport,
          {
            method: 'POST',
            path: 'runs/search',
            json: { experiment_ids: [id], filter: `tags.\`${RUN_TAG}\` = '${runId}'`, max_results: 1 },
            repeat: 'safe',
          },
          foundRunsSchema,
        ),
        TE.chain(({ runs: [found] }) =>
          found !== undefined
            ? TE.right(found)
            : pipe(
                call(
                  transport,
                  {
                    method: 'POST',
                    path: 'runs/create',
                    json: {
                      experiment_id: id,
                      run_name: about.name,
                      start_time: Math.floor(about.at),
                      tags: [{ key: RUN_TAG, value: runId }],
                    },
                    repeat: 'never',
                  },
                  createdRunSchema,
                ),
                TE.map(({ run }) => run),
              ),
        ),
      ),
    ),
    TE.map(knownOf),
  )

/** Replaces characters that MLflow does not allow in names. */
const allowed = (name: string): string => name.replace(/[^\p{L}\p{N}_\-. :/]/gu, '_').slice(0, KEY_LENGTH)

const pair = (key: string, value: string): Pair => ({ key: allowed(key), value: value.slice(0, VALUE_LENGTH) })

/** Returns the data that an event adds to the run. */
const batchOf = (event: TrackedEvent): Partial<Batch> => {
  switch (event.type) {
    case 'start':
      return { params: Object.entries(event.settings).map(([name, value]) => pair(name, String(value))) }
    case 'scalars': {
      const seconds = Object.entries(event.seconds).map(([name, value]) => [`time/${name}`, value] as const)
      return {
        metrics: [...Object.entries(event.values), ...seconds].map(([name, value]) => ({
          key: allowed(name),
          value: jsonNumber(value),
          timestamp: Math.floor(event.at),
          step: event.step,
        })),
      }
    }
    case 'saved':
      return { tags: [pair(`tandem.${event.what}`, event.path)] }
    case 'alarm':
      return { tags: [pair(`tandem.alarm.${event.name}`, `step ${event.step}: ${event.text}`)] }
    case 'failure':
      return { tags: [pair(`tandem.failure.${event.name}`, `step ${event.step}: ${event.text}`)] }
    case 'samples':
    case 'end':
      return {}
  }
}

/**
 * Returns the data that the server lacks, in batches within its limits. Parameters cannot change,
 * so a changed value becomes a tag.
 */
const missing = (events: readonly TrackedEvent[], { steps, params }: Known): readonly Batch[] => {
  const all = events.map(batchOf)
  const given = all.flatMap((each) => each.params ?? [])
  const metrics = all
    .flatMap((each) => each.metrics ?? [])
    .filter(({ key, step }) => step > (steps.get(key) ?? Number.NEGATIVE_INFINITY))
  const changed = given.filter(({ key, value }) => params.has(key) && params.get(key) !== value)
  const tags = [
    ...all.flatMap((each) => each.tags ?? []),
    ...changed.map(({ key, value }) => pair(`tandem.resumed.${key}`, value)),
  ]
  const fresh = given.filter(({ key }) => !params.has(key))
  const count = Math.max(
    Math.ceil(metrics.length / METRICS),
    Math.ceil(fresh.length / PAIRS),
    Math.ceil(tags.length / PAIRS),
  )
  const part = <T>(items: readonly T[], size: number, i: number): readonly T[] => items.slice(i * size, (i + 1) * size)
  return Array.from({ length: count }, (_, i) => ({
    metrics: part(metrics, METRICS, i),
    params: part(fresh, PAIRS, i),
    tags: part(tags, PAIRS, i),
  }))
}

const withBatch = (known: Known, { metrics, params }: Batch): Known => ({
  ...known,
  steps: new Map([...known.steps, ...metrics.map(({ key, step }) => [key, step] as const)]),
  params: new Map([...known.params, ...params.map(({ key, value }) => [key, value] as const)]),
})

const STATUS: Readonly<Record<RunStatus, string>> = { finished: 'FINISHED', interrupted: 'KILLED', failed: 'FAILED' }

/** Logs missing data and the state of the run. Updates `known`. */
const log =
  (transport: Transport, events: readonly TrackedEvent[], known: Cell<Known | null>): ((at: Known) => Call<void>) =>
  (start) => {
    const post = (path: string, json: object, repeat: HttpRequest['repeat']): Call<unknown> =>
      call(transport, { method: 'POST', path, json: { run_id: start.run, ...json }, repeat }, anything)
    const logged = missing(events, start).map((batch) =>
      pipe(
        post('runs/log-batch', batch, 'never'),
        TE.map(() => known.update((now) => withBatch(now ?? start, batch))),
      ),
    )
    const states = events.flatMap((event) => {
      if (event.type === 'start') return [post('runs/update', { status: 'RUNNING' }, 'fresh')]
      if (event.type !== 'end') return []
      const end_time = Math.floor(event.at)
      return [post('runs/update', { status: STATUS[event.status], end_time }, 'fresh')]
    })
    return pipe(
      [...logged, ...states],
      TE.sequenceSeqArray,
      TE.map(() => undefined),
    )
  }

/** Always retries `experiments/create`: another run may have created the experiment. */
const again = (failure: CallFailure): SinkFailure['again'] =>
  failure._tag === 'HttpFailure' && failure.path.endsWith('experiments/create') ? 'later' : againAfter(failure)

/**
 * Makes a sink that logs a run to an MLflow server by REST API 2.0: scalars as metrics, seconds
 * under `time/`, settings as parameters, checkpoint paths and alarms as tags, and the state of the
 * run. Sample texts are not sent.
 *
 * The run is found by its tag `tandem.run`, so a resumed session logs to the same run. Nothing is
 * logged twice: before the first write, and after a failure with an unknown outcome, the sink asks
 * the server for the last step of every metric and skips earlier steps. A setting that changed on
 * resume becomes a tag, because parameters cannot change.
 *
 * Errors   `Left(SinkFailure)` with the HttpFailure: `later` if the server is unreachable or busy,
 *          or denies access; `never` if it rejects the events themselves. Throws RangeError for
 *          unknown options.
 * Effects  sends requests. `close` closes the transport.
 * Cost     at most 800 metrics per request, and four requests for the first write.
 * Source   MLflow, REST API 2.0: experiments, runs/search, runs/create, runs/log-batch with its
 *          limits, runs/update.
 */
export const mlflowSink = (options: MlflowOptions): Sink => {
  checkOptions('mlflowSink', options, MLFLOW_SINK_OPTIONS)
  const { transport } = options
  const known = cell<Known | null>(null)
  const name = cell(options.runId)
  return {
    name: 'mlflow',
    write: (events) => {
      const [first] = events
      if (first === undefined) return TE.right(undefined)
      if (first.type === 'start') name.set(first.run)
      return pipe(
        TE.fromIO(known.get),
        TE.chain((now) => (now === null ? findRun(options, { name: name.get(), at: first.at }) : TE.right(now))),
        TE.chainFirstIOK((now) => () => known.set(now)),
        TE.chain(log(transport, events, known)),
        TE.mapLeft((cause) => {
          known.set(null)
          return sinkFailure('mlflow', again(cause), cause)
        }),
      )
    },
    close: TE.fromTask(transport.close),
  }
}
