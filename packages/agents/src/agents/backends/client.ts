import type { Transport } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryAction, HistoryPrompt, Policy } from 'tandem-rl'
import { type ChatPolicy, type ChatTool, OpenAIWrapper } from 'tandem-rl/remote'
import { backendOf, type LLMBackend } from './backend.js'
import type { ClientConfig } from './configs.js'
import type { BackendModel } from './modelTexts.js'

/**
 * Speaks to a server with OpenAI's chat protocol: `OpenAIWrapper`. With `capture: 'tokens'`,
 * replies have the ids and log-probabilities of the server.
 *
 * Errors   as `OpenAIWrapper`. Throws TypeError for an address that is not one.
 * Effects  connections until `close`.
 * Source   AgentFly `ClientBackend`.
 *
 * @example
 * const backend = ClientBackend({ modelNameOrPath: 'policy' }, ClientConfig({ baseUrl: 'http://127.0.0.1:8000/v1' }))
 * backend.name // 'client'
 */
export const ClientBackend = (
  { modelNameOrPath }: Pick<BackendModel, 'modelNameOrPath'>,
  config: ClientConfig,
): LLMBackend => {
  const {
    backend: _,
    maxRequestsPerMinute,
    timeout,
    model = modelNameOrPath,
    dialect,
    capture = 'text',
    ...rest
  } = config
  const { baseUrl, apiKey, ...sampling } = rest
  const server = { model, ...(baseUrl !== undefined && { baseUrl }), ...(apiKey !== undefined && { apiKey }) }
  let first: ChatPolicy<'text'> | undefined
  return backendOf<Transport>({
    name: 'client',
    open: async () => {
      // One connection for all requests: the limit per minute holds for all of them together.
      first = OpenAIWrapper({ ...server, ...(maxRequestsPerMinute !== undefined && { maxRequestsPerMinute }) })
      return TE.right(first.transport)()
    },
    seat: (opened, { tools = [], toolCalls, stop, ...settings }) => {
      const policy: Policy<HistoryPrompt, HistoryAction> = OpenAIWrapper({
        ...sampling,
        ...settings,
        ...server,
        capture,
        transport: opened,
        ...(timeout !== undefined && { timeoutSeconds: timeout }),
        ...(stop !== undefined && { stop }),
        ...(tools.length > 0 && { tools: tools as readonly ChatTool[] }), // tools in OpenAI's format
        dialect: { ...dialect, ...(toolCalls !== undefined && { toolCalls }) },
      })
      return { reads: 'messages', policy }
    },
    close: async () => first?.close(),
  })
}
