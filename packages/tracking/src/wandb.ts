/** Logs events to a run on a Weights & Biases server. */
import { cell, checkOptions, type FormatFailure, parseJsonAs, type Transport } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { againAfter, type Call, serviceCall } from './httpSink.js'
import { WANDB_SINK_OPTIONS } from './optionKinds.js'
import { type RunStatus, type SettingValue, type Sink, sinkFailure, type TrackedEvent } from './sink.js'

export interface WandbOptions {
  /** Sends requests to the server, with the API key as basic authorization of the user `api`. */
  readonly transport: Transport
  /** Name of the user or team. Default: that of the API key. */
  readonly entity?: string
  /** Name of the project, which is created if necessary. Default `tandem`. */
  readonly project?: string
  /** Unique id of the run, the same in all sessions: letters, digits, dashes. */
  readonly runId: string
}

type Events = readonly TrackedEvent[]

/** The data of a step by name, with `_timestamp` in seconds. */
type Row = Readonly<Record<string, number>> & { readonly _step: number }

/** Rows by step. */
type Rows = ReadonlyMap<number, Row>

/** The run on the server. */
interface Known {
  readonly entity: string
  readonly project: string
  readonly run: string
  /** Number of rows that the server has. */
  readonly lines: number
  /** The last step that the server has. */
  readonly last: number
}

/** Name and settings of the run. */
interface About {
  readonly name: string
  readonly settings: Readonly<Record<string, SettingValue>>
}

const RESUME_STATUS = `query RunResumeStatus($project: String, $entity: String, $name: String!) {
  model(name: $project, entityName: $entity) {
    bucket(name: $name, missingOk: true) { historyLineCount historyTail }
  }
}`

const UPSERT_BUCKET = `mutation UpsertBucket(
  $name: String, $project: String, $entity: String, $displayName: String, $config: JSONString
) {
  upsertBucket(input: {
    name: $name, modelName: $project, entityName: $entity, displayName: $displayName, config: $config
  }) {
    bucket { name project { name entity { name } } }
  }
}`

const ALERT = `mutation NotifyScriptableRunAlert(
  $entityName: String!, $projectName: String!, $runName: String!, $title: String!, $text: String!,
  $severity: AlertSeverity = INFO, $waitDuration: Duration
) {
  notifyScriptableRunAlert(input: {
    entityName: $entityName, projectName: $projectName, runName: $runName, title: $title,
    text: $text, severity: $severity, waitDuration: $waitDuration
  }) { success }
}`

/** Alerts of the same title within this time are sent once. */
const ALERT_MS = 60_000

const named = z.object({ name: z.string() })
const bucketSchema = z.object({
  upsertBucket: z.object({ bucket: z.object({ name: z.string(), project: named.extend({ entity: named }) }) }),
})
const statusSchema = z.object({
  model: z.object({ bucket: z.object({ historyLineCount: z.number(), historyTail: z.string() }).nullish() }).nullish(),
})
const replySchema = z.object({ data: z.unknown(), errors: z.array(z.object({ message: z.string() })).optional() })
const tailSchema = z.array(z.string())
const anything = z.unknown()

/** The exit code of each end, as the official client sends it. */
const EXIT_CODE: Readonly<Record<RunStatus, number>> = { finished: 0, interrupted: 255, failed: 1 }

/** Formats a row as the official client does: numbers that JSON lacks are written as `NaN`. */
const lineOf = (row: Row): string =>
  `{${Object.entries(row)
    .map(([name, value]) => `${JSON.stringify(name)}:${String(value)}`)
    .join(',')}}`

const malformed = (reason: string): FormatFailure => ({ _tag: 'FormatFailure', format: 'Weights & Biases', reason })

const LAST_STEP = /"_step":(\d{1,15})[,}]/

/** Reads the last step out of the last rows, which may contain `NaN` and are therefore not JSON. */
const lastStep = (tail: string): E.Either<FormatFailure, number> =>
  pipe(
    parseJsonAs(tailSchema, tail),
    E.mapLeft((reason) => malformed(`historyTail: ${reason}`)),
    E.map((lines) => Number(LAST_STEP.exec(lines.at(-1) ?? '')?.[1] ?? -1)),
  )

/** Adds the numbers of events to the rows of their steps. */
const withEvents = (rows: Rows, events: Events): Rows => {
  const all = new Map(rows)
  for (const event of events) {
    if (event.type !== 'scalars') continue
    const seconds = Object.entries(event.seconds).map(([name, value]) => [`time/${name}`, value] as const)
    const added = { ...event.values, ...Object.fromEntries(seconds), _step: event.step, _timestamp: event.at / 1000 }
    all.set(event.step, { ...all.get(event.step), ...added })
  }
  return all
}

/** Returns the last step whose row is complete. */
const completeStep = (rows: Rows, events: Events): number => {
  const closed = events.flatMap((event) => (event.type === 'saved' || event.type === 'end' ? [event.step] : []))
  return Math.max(...closed, Math.max(...rows.keys()) - 1)
}

interface Query<T> {
  readonly query: string
  readonly operationName: string
  readonly variables: Readonly<Record<string, string | number | null>>
  readonly schema: z.ZodType<T>
}

/** Sends a GraphQL request. Errors that the server reports are failures. */
const graphQL = <T>(transport: Transport, { schema, ...json }: Query<T>): Call<T> =>
  pipe(
    serviceCall(transport, 'Weights & Biases')(
      { method: 'POST', path: '/graphql', json, repeat: 'fresh' },
      replySchema,
    ),
    TE.chainEitherKW(({ data, errors }) => {
      const error = errors?.[0]
      if (error !== undefined) return E.left(malformed(`${json.operationName}: ${error.message}`))
      const read = schema.safeParse(data)
      return read.success ? E.right(read.data) : E.left(malformed(`${json.operationName}: ${read.error.message}`))
    }),
  )

/** Creates the run if necessary, and returns the number of its rows and its last step. */
const openRun = (
  { transport, entity, project = 'tandem', runId }: WandbOptions,
  { name, settings }: About,
): Call<Known> => {
  const config = JSON.stringify(Object.fromEntries(Object.entries(settings).map(([key, value]) => [key, { value }])))
  const place = { name: runId, project, entity: entity ?? null }
  const status = { query: RESUME_STATUS, operationName: 'RunResumeStatus', variables: place, schema: statusSchema }
  const variables = { ...place, displayName: name, config }
  return pipe(
    graphQL(transport, status),
    TE.bindTo('found'),
    TE.bind('made', () =>
      graphQL(transport, { query: UPSERT_BUCKET, operationName: 'UpsertBucket', variables, schema: bucketSchema }),
    ),
    TE.chainEitherKW(({ found, made }) => {
      const { historyLineCount: lines = 0, historyTail = '[]' } = found.model?.bucket ?? {}
      const { name: run, project: owner } = made.upsertBucket.bucket
      return pipe(
        lastStep(historyTail),
        E.map((last): Known => ({ entity: owner.entity.name, project: owner.name, run, lines, last })),
      )
    }),
  )
}

/** Sends the complete rows that the server lacks, and the end of the run. */
const append = (
  transport: Transport,
  at: Known,
  { rows, summary, events }: { readonly rows: readonly Row[]; readonly summary: Row; readonly events: Events },
): Call<Known> => {
  const end = events.find((event) => event.type === 'end')
  const files = summary !== null &&
    rows.length > 0 && {
      'wandb-history.jsonl': { offset: at.lines, content: rows.map(lineOf) },
      'wandb-summary.json': { offset: 0, content: [lineOf(summary)] },
    }
  if (files === false && end === undefined) return TE.right(at)
  const path = `/files/${[at.entity, at.project, at.run].map(encodeURIComponent).join('/')}/file_stream`
  const ended = end !== undefined && { complete: true, exitcode: EXIT_CODE[end.status] }
  const json = { ...(files !== false && { files }), ...ended }
  return pipe(
    serviceCall(transport, 'Weights & Biases')({ method: 'POST', path, json, repeat: 'never' }, anything),
    TE.map(() => ({ ...at, lines: at.lines + rows.length, last: rows.at(-1)?._step ?? at.last })),
  )
}

const byStep = (a: Row, b: Row): number => a._step - b._step

const SEVERITY = { alarm: 'WARN', failure: 'ERROR' } as const

const sendAlerts = (transport: Transport, { entity, project, run }: Known, events: Events): Call<unknown> =>
  pipe(
    events.flatMap((event) => {
      if (event.type !== 'alarm' && event.type !== 'failure') return []
      const place = { entityName: entity, projectName: project, runName: run }
      const alert = { title: event.name, text: event.text, severity: SEVERITY[event.type], waitDuration: ALERT_MS }
      const variables = { ...place, ...alert }
      return [
        graphQL(transport, { query: ALERT, operationName: 'NotifyScriptableRunAlert', variables, schema: anything }),
      ]
    }),
    TE.sequenceSeqArray,
  )

/**
 * Makes a sink that logs a run to a Weights & Biases server: scalars as metrics, seconds under
 * `time/`, settings as the configuration, alarms and failures as alerts, and the end with the exit
 * code of the official client: 0, 1 if the run failed, 255 if it was interrupted. Texts of samples
 * and paths of checkpoints are not sent.
 *
 * A row has all numbers of a step. It is sent when a later step begins, at a checkpoint, or at the
 * end, because the server expects one row per step. Nothing is logged twice: before the first write
 * of a session, and after a failure with an unknown outcome, the sink asks the server for its last
 * step and skips rows up to it.
 *
 * The server's interface is not documented. The requests have the form of those of the official
 * client, version 0.31.0, as it sent them to a recording server. The service itself was not tried.
 *
 * Errors   `Left(SinkFailure)` with the HttpFailure: `later` if the server is unreachable or busy,
 *          or denies access; `never` if it rejects the events themselves. Throws RangeError for
 *          unknown options.
 * Effects  sends requests. `close` closes the transport.
 * Cost     two requests for the first write, then one per write and one per alert.
 * Source   wandb 0.31.0: RunResumeStatus, UpsertBucket, NotifyScriptableRunAlert, file_stream.
 */
export const wandbSink = (options: WandbOptions): Sink => {
  checkOptions('wandbSink', options, WANDB_SINK_OPTIONS)
  const { transport } = options
  const about = cell<About>({ name: options.runId, settings: {} })
  const known = cell<Known | null>(null)
  const held = cell<Rows>(new Map())
  const summary = cell<Row | null>(null)
  return {
    name: 'wandb',
    write: (events) => {
      if (events.length === 0) return TE.right(undefined)
      for (const event of events) {
        if (event.type !== 'start') continue
        about.set({ name: event.run, settings: event.settings })
        known.set(null)
      }
      const now = known.get()
      const all = withEvents(held.get(), events)
      const complete = completeStep(all, events)
      return pipe(
        now === null ? openRun(options, about.get()) : TE.right(now),
        TE.chain((at) => {
          const open = [...all.values()].filter(({ _step }) => _step > at.last).sort(byStep)
          const rows = open.filter(({ _step }) => _step <= complete)
          const latest = Object.assign({}, summary.get(), ...rows) as Row // the union of rows
          return pipe(
            append(transport, at, { rows, summary: latest, events }),
            TE.chainFirst((after) => sendAlerts(transport, after, events)),
            TE.map((after) => {
              known.set(after)
              summary.set(latest)
              held.set(new Map(open.slice(rows.length).map((row) => [row._step, row])))
            }),
          )
        }),
        TE.mapLeft((cause) => {
          known.set(null)
          return sinkFailure('wandb', againAfter(cause), cause)
        }),
      )
    },
    close: TE.fromTask(transport.close),
  }
}
