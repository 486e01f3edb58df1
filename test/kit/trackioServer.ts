/** An imitation of Trackio's server. Schemas of its own client's requests check all bodies. */
import { z } from 'zod'
import { type TroubledServer, troubledServer } from './troubledServer.js'

const setting = z.union([z.string(), z.number(), z.boolean(), z.null()])
const text = z.strictObject({ _type: z.literal('trackio.markdown'), _value: z.string() })
const place = { project: z.string(), run: z.string(), run_id: z.string() }
const log = z.strictObject({
  ...place,
  metrics: z.record(z.string(), z.union([z.number(), z.enum(['NaN', 'Infinity', '-Infinity']), text])),
  step: z.number().int(),
  config: z.record(z.string(), setting).nullable(),
  log_id: z.string(),
})
const alert = z.strictObject({
  ...place,
  title: z.string(),
  text: z.string(),
  level: z.enum(['info', 'warn', 'error']),
  step: z.number().int(),
  timestamp: z.iso.datetime({ offset: true }),
  alert_id: z.string(),
})
const call = <T extends z.ZodRawShape>(kwargs: T) =>
  z.strictObject({ args: z.tuple([]), kwargs: z.strictObject({ hf_token: z.null(), ...kwargs }) })

/** The bodies of requests by path. */
export const trackioBodies = {
  '/api/bulk_log': call({ logs: z.array(log) }),
  '/api/bulk_alert': call({ alerts: z.array(alert) }),
}

export interface TrackioServer extends TroubledServer {
  /** Logs and alerts in their order. */
  readonly logs: () => readonly z.infer<typeof log>[]
  readonly alerts: () => readonly z.infer<typeof alert>[]
  readonly requests: readonly string[]
}

/** Starts a server with the write token `token`. As in Trackio, a known id is ignored. */
export const trackioServer = async (): Promise<TrackioServer> => {
  const logs = new Map<string, z.infer<typeof log>>()
  const alerts = new Map<string, z.infer<typeof alert>>()
  const requests: string[] = []
  const add = <T>(items: Map<string, T>, id: string, item: T): void => void (items.has(id) || items.set(id, item))
  const server = await troubledServer(({ url: { pathname }, headers, body }) => {
    requests.push(pathname)
    if (headers['x-trackio-write-token'] !== 'token')
      return [400, { error: 'A write_token is required to log metrics or upload to this server.' }]
    if (pathname === '/api/bulk_log')
      for (const item of trackioBodies[pathname].parse(JSON.parse(body)).kwargs.logs) add(logs, item.log_id, item)
    else if (pathname === '/api/bulk_alert')
      for (const item of trackioBodies[pathname].parse(JSON.parse(body)).kwargs.alerts) add(alerts, item.alert_id, item)
    else return [404, { error: `Unknown API: ${pathname}` }]
    return [200, { data: null }]
  })
  return { ...server, requests, logs: () => [...logs.values()], alerts: () => [...alerts.values()] }
}
