/** A client of Ray's Jobs API. */
import { errorMessage, parseJson, splitLogin } from '@tandem-rl/base'
import { plainRequest } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'

/** A failure of a Ray cluster, or of the way to it. */
export interface RayFailure {
  readonly _tag: 'RayFailure'
  /** `unreachable`: no response. `refused`: a status of 4xx or 5xx. `protocol`: not a Jobs API. */
  readonly kind: 'unreachable' | 'refused' | 'protocol'
  /** The address of the server. */
  readonly where: string
  readonly reason: string
}

/** A job as the user describes it, in Ray's terms. */
export const jobSchema = z.strictObject({
  entrypoint: z.string().min(1).describe('shell command that Ray runs on the cluster'),
  runtime_env: z.record(z.string(), z.unknown()).optional(),
  metadata: z.record(z.string(), z.string()).optional(),
  entrypoint_num_cpus: z.number().min(0).optional(),
  entrypoint_num_gpus: z.number().min(0).optional(),
  entrypoint_memory: z.number().int().min(0).optional(),
  entrypoint_resources: z.record(z.string(), z.number()).optional(),
})

export type RayJob = Readonly<z.output<typeof jobSchema>>

const infoSchema = z.object({
  status: z.enum(['PENDING', 'RUNNING', 'STOPPED', 'SUCCEEDED', 'FAILED']),
  message: z.string().nullish(),
  entrypoint: z.string(),
})

/** The state of a job. */
export type RayJobInfo = Readonly<z.output<typeof infoSchema>>

/** Returns `true` if a job has ended. */
export const hasEnded = ({ status }: RayJobInfo): boolean => status !== 'PENDING' && status !== 'RUNNING'

export interface RayJobsOptions {
  /** Address of the dashboard, such as `http://head:8265`. */
  readonly url: string
  /** Token of a cluster with `RAY_AUTH_MODE=token`. */
  readonly token?: string
  /** Sends requests. Default: over the network. */
  readonly send?: typeof plainRequest
  /** Time limit of a request in milliseconds. Default 60,000. */
  readonly requestMs?: number
}

type Answer<T> = TE.TaskEither<RayFailure, T>

/** Ray's Jobs API. */
export interface RayJobs {
  readonly url: string
  /** Submits a job under an identifier. A second job of the same identifier is refused by Ray. */
  readonly submit: (job: RayJob, id: string) => Answer<string>
  readonly info: (id: string) => Answer<RayJobInfo>
  /** Returns the whole log so far. */
  readonly logs: (id: string) => Answer<string>
  /** Asks a job to stop. Returns `false` if it had ended. */
  readonly stop: (id: string) => Answer<boolean>
}

/** The last line with a word of Ray's error texts, which are Python tracebacks. */
const lastLine = (text: string): string =>
  text
    .split('\n')
    .findLast((line) => /[a-z]/i.test(line))
    ?.trim()
    .slice(0, 500) ?? ''

/** Makes a client of the Jobs API of a Ray cluster. */
export const rayJobs = ({ url, token, send = plainRequest, requestMs = 60_000 }: RayJobsOptions): RayJobs => {
  const login = splitLogin(new URL(url))
  const base = login.url.href.replace(/\/$/, '')
  const failure = (kind: RayFailure['kind'], reason: string): RayFailure => ({
    _tag: 'RayFailure',
    kind,
    where: base,
    reason,
  })
  const call =
    <T>(path: string, schema: z.ZodType<T>, body?: object): Answer<T> =>
    async () => {
      const headers = {
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...login.headers,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      }
      const sent =
        body === undefined ? { method: 'GET' as const } : { method: 'POST' as const, body: JSON.stringify(body) }
      try {
        const { status, text } = await send(`${base}${path}`, {
          ...sent,
          headers,
          signal: AbortSignal.timeout(requestMs),
        })
        if (status >= 400) return E.left(failure('refused', `${status}: ${lastLine(text)}`))
        const json = parseJson(text)
        const read = E.isLeft(json) ? null : schema.safeParse(json.right)
        if (read?.success === true) return E.right(read.data)
        return E.left(failure('protocol', `the response of ${path} is not one of Ray's Jobs API`))
      } catch (error) {
        return E.left(failure('unreachable', `no response: ${errorMessage(error)}`))
      }
    }
  const at = (id: string): string => `/api/jobs/${encodeURIComponent(id)}`
  const submitted = z.object({ submission_id: z.string() })
  return {
    url: base,
    submit: (job, id) =>
      TE.map((answer: z.output<typeof submitted>) => answer.submission_id)(
        call('/api/jobs/', submitted, { ...job, submission_id: id }),
      ),
    info: (id) => call(at(id), infoSchema),
    logs: (id) =>
      TE.map((answer: { readonly logs: string }) => answer.logs)(
        call(`${at(id)}/logs`, z.object({ logs: z.string() })),
      ),
    stop: (id) =>
      TE.map((answer: { readonly stopped: boolean }) => answer.stopped)(
        call(`${at(id)}/stop`, z.object({ stopped: z.boolean() }), {}),
      ),
  }
}
