/** An imitation of the server of Weights & Biases, which stores rows at their offsets. */
import { z } from 'zod'
import { type TroubledServer, troubledServer } from './troubledServer.js'

const wandbQuery = z.strictObject({
  query: z.string(),
  operationName: z.enum(['RunResumeStatus', 'UpsertBucket', 'NotifyScriptableRunAlert']),
  variables: z.record(z.string(), z.union([z.string(), z.number(), z.null()])),
})
const file = z.strictObject({ offset: z.number().int(), content: z.array(z.string()) })
export const wandbStream = z.strictObject({
  files: z.strictObject({ 'wandb-history.jsonl': file.optional(), 'wandb-summary.json': file.optional() }).optional(),
  complete: z.boolean().optional(),
  exitcode: z.number().int().optional(),
})

type Query = z.infer<typeof wandbQuery>

export interface WandbServer extends TroubledServer {
  readonly queries: readonly Query[]
  readonly rows: readonly string[]
  /** The last summary, configuration and exit code. */
  readonly last: () => { readonly summary: string; readonly config: unknown; readonly exit: number | undefined }
}

/** Starts a server without runs, whose API key is `key` and belongs to `me`. */
export const wandbServer = async (): Promise<WandbServer> => {
  const [queries, rows] = [[] as Query[], [] as string[]]
  let [summary, config, exit]: [string, unknown, number | undefined] = ['', null, undefined]
  let isThere = false
  const answerTo = ({ operationName, variables }: Query): object => {
    if (operationName === 'NotifyScriptableRunAlert') return { notifyScriptableRunAlert: { success: true } }
    if (operationName === 'RunResumeStatus') {
      const bucket = { historyLineCount: rows.length, historyTail: JSON.stringify(rows.slice(-1)) }
      return { model: isThere ? { bucket } : null }
    }
    isThere = true
    config = JSON.parse(String(variables.config))
    const project = { name: variables.project, entity: { name: variables.entity ?? 'me' } }
    return { upsertBucket: { bucket: { name: variables.name, project } } }
  }
  const server = await troubledServer(({ url: { pathname }, headers, body }) => {
    if (headers.authorization !== `Basic ${Buffer.from('api:key').toString('base64')}`)
      return [401, { error: 'no key' }]
    if (pathname === '/graphql') {
      const query = wandbQuery.parse(JSON.parse(body))
      queries.push(query)
      if (query.variables.project === 'forbidden') return [200, { data: null, errors: [{ message: 'not yours' }] }]
      return [200, { data: answerTo(query) }]
    }
    if (pathname !== '/files/me/tandem/abc/file_stream') return [404, {}]
    const { files, exitcode } = wandbStream.parse(JSON.parse(body))
    const history = files?.['wandb-history.jsonl']
    if (history !== undefined) rows.splice(history.offset, history.content.length, ...history.content)
    summary = files?.['wandb-summary.json']?.content[0] ?? summary
    exit = exitcode ?? exit
    return [200, {}]
  })
  return { ...server, queries, rows, last: () => ({ summary, config, exit }) }
}
