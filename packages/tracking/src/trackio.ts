/** Logs events to a run on a Trackio server. */
import { cell, checkOptions, type Transport } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { againAfter, type Call, type CallFailure, jsonNumber, type MetricNumber, serviceCall } from './httpSink.js'
import { TRACKIO_SINK_OPTIONS } from './optionKinds.js'
import { type SettingValue, type Sink, type SinkFailure, sinkFailure, type TrackedEvent } from './sink.js'

export interface TrackioOptions {
  /** Sends requests to the server, with its write token as the header `x-trackio-write-token`. */
  readonly transport: Transport
  /** Name of the project, which is created if necessary. Default `tandem`. */
  readonly project?: string
  /** Unique id of the run, the same in all sessions. */
  readonly runId: string
}

type Settings = Readonly<Record<string, SettingValue>>

/** A run on the server. */
interface Place {
  readonly project: string
  readonly run: string
  readonly run_id: string
}

/** A text that the dashboard renders. */
interface Markdown {
  readonly _type: 'trackio.markdown'
  readonly _value: string
}

/** An item of `bulk_log`. The server ignores an item whose `log_id` it has. */
interface Log extends Place {
  readonly metrics: Readonly<Record<string, MetricNumber | Markdown>>
  readonly step: number
  readonly config: Settings | null
  readonly log_id: string
}

/** An item of `bulk_alert`. The server ignores an item whose `alert_id` it has. */
interface Alert extends Place {
  readonly title: string
  readonly text: string
  readonly level: 'warn' | 'error'
  readonly step: number
  readonly timestamp: string
  readonly alert_id: string
}

/** Items per request. */
const ITEMS = 256

const replySchema = z.object({ data: z.unknown() })

/** Returns the item that numbers or texts add to the run. */
const logOf = (place: Place, { step }: { readonly step: number }, metrics: Log['metrics']): readonly Log[] => {
  const [first] = Object.keys(metrics)
  if (first === undefined) return []
  return [{ ...place, metrics, step, config: null, log_id: `${place.run_id}/${step}/${first}` }]
}

const logsOf =
  (place: Place) =>
  (event: TrackedEvent): readonly Log[] => {
    if (event.type === 'scalars') {
      const seconds = Object.entries(event.seconds).map(([name, value]) => [`time/${name}`, value] as const)
      const all = [...Object.entries(event.values), ...seconds]
      return logOf(place, event, Object.fromEntries(all.map(([name, value]) => [name, jsonNumber(value)])))
    }
    if (event.type !== 'samples') return []
    const markdown = (text: string): Markdown => ({ _type: 'trackio.markdown', _value: text })
    const texts = event.samples.map(({ name, text }) => [`samples/${name}`, markdown(text)] as const)
    return logOf(place, event, Object.fromEntries(texts))
  }

const alertsOf =
  (place: Place) =>
  (event: TrackedEvent): readonly Alert[] => {
    const alert = (title: string, text: string, level: Alert['level']): readonly Alert[] => {
      const { at, step } = event as Extract<TrackedEvent, { readonly step: number }> // only `start` has no step
      const alert_id = `${place.run_id}/${step}/${event.type}/${title}`
      return [{ ...place, title, text, level, step, timestamp: new Date(at).toISOString(), alert_id }]
    }
    if (event.type === 'alarm') return alert(event.name, event.text, 'warn')
    if (event.type === 'failure') return alert(event.name, event.text, 'error')
    if (event.type === 'end' && event.status === 'failed') return alert('failed', 'the run failed', 'error')
    return []
  }

/** Adds the settings to the first item. */
const withConfig = ([first, ...rest]: readonly Log[], config: Settings): readonly Log[] =>
  first === undefined ? [] : [{ ...first, config }, ...rest]

/** Returns `later` if the write token is wrong, too, which the server reports with 400. */
const again = (failure: CallFailure): SinkFailure['again'] =>
  failure._tag === 'HttpFailure' && failure.body?.includes('write_token') === true ? 'later' : againAfter(failure)

/**
 * Makes a sink that logs a run to a Trackio server: scalars as metrics, seconds under `time/`,
 * texts of samples as Markdown under `samples/`, settings as the configuration of the run, and
 * alarms, failures and a failed end as alerts. Paths of checkpoints are not sent, and the server
 * has no state of a run.
 *
 * Nothing is logged twice: each item has an id made of the run, the step and its first name, and
 * the server ignores an item that it has. A session that resumes a run therefore keeps the numbers
 * of the steps that it repeats, and replaces the configuration. The server stores the time at which
 * it receives numbers.
 *
 * Errors   `Left(SinkFailure)` with the HttpFailure: `later` if the server is unreachable, pauses
 *          writes or denies access; `never` if it rejects the events themselves. Throws RangeError
 *          for unknown options.
 * Effects  sends requests. `close` closes the transport.
 * Cost     at most 256 items per request.
 * Source   Trackio 0.43, server.py: bulk_log, bulk_alert.
 */
export const trackioSink = (options: TrackioOptions): Sink => {
  checkOptions('trackioSink', options, TRACKIO_SINK_OPTIONS)
  const { transport, project = 'tandem', runId } = options
  const name = cell(runId)
  const config = cell<Settings | null>(null)
  const call = serviceCall(transport, 'Trackio')

  /** Sends items in pieces. Repeating a request has no effect. */
  const send = (api: string, parameter: string, items: readonly (Log | Alert)[]): readonly Call<unknown>[] =>
    Array.from({ length: Math.ceil(items.length / ITEMS) }, (_, i) => {
      const kwargs = { hf_token: null, [parameter]: items.slice(i * ITEMS, (i + 1) * ITEMS) }
      return call({ method: 'POST', path: `/api/${api}`, json: { args: [], kwargs }, repeat: 'safe' }, replySchema)
    })

  return {
    name: 'trackio',
    write: (events) => {
      for (const event of events) {
        if (event.type !== 'start') continue
        name.set(event.run)
        config.set(event.settings)
      }
      const place: Place = { project, run: name.get(), run_id: runId }
      const pending = config.get()
      const logs = events.flatMap(logsOf(place))
      return pipe(
        [
          ...send('bulk_log', 'logs', pending === null ? logs : withConfig(logs, pending)),
          ...send('bulk_alert', 'alerts', events.flatMap(alertsOf(place))),
        ],
        TE.sequenceSeqArray,
        TE.map(() => {
          if (logs.length > 0) config.set(null)
        }),
        TE.mapLeft((cause) => sinkFailure('trackio', again(cause), cause)),
      )
    },
    close: TE.fromTask(transport.close),
  }
}
