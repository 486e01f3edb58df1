/**
 * Tools of MCP servers in tests: opened, called, and closed in the end, with nothing left behind.
 */
import { fileURLToPath } from 'node:url'
import { keyFromSeed } from '@tandem-rl/base'
import { type McpProgram, type McpServer, type McpTools, type McpToolsOptions, mcpTools } from '@tandem-rl/tools'
import { afterAll } from 'vitest'
import { childrenOf, noMoreThan } from './resources.js'
import { leftOf, rightOf } from './results.js'

const programOf = (file: string, ...args: readonly string[]): McpProgram => ({
  kind: 'stdio',
  command: process.execPath,
  args: [fileURLToPath(new URL(file, import.meta.url)), ...args],
})

/** The server for tests as a process. */
export const mcpProgram = (env: Readonly<Record<string, string>> = {}): McpServer => ({
  ...programOf('./mcpServer.mjs'),
  env,
})

/** A process that speaks badly. */
export const lyingProgram = (way: string): McpServer => programOf('./lyingMcpServer.mjs', way)

export interface OpenedTools extends McpTools {
  /** Calls a tool by its name with the server's. */
  readonly call: (
    name: string,
    args?: Readonly<Record<string, unknown>>,
    signal?: AbortSignal,
  ) => ReturnType<ReturnType<McpTools['tools']>[number]['call']> extends () => infer R ? R : never
}

const opened = new Set<McpTools>()

/**
 * Closes what the tests of a file opened, and checks that no process is left. To be called once in
 * a file.
 */
export const closesTools = (): void => {
  const before = new Set(childrenOf())
  afterAll(async () => {
    await Promise.all([...opened].map((tools) => tools.close()))
    opened.clear()
    await noMoreThan(before)
  })
}

/** Opens tools of servers, to be closed after the file. */
export const openTools = async (options: McpToolsOptions): Promise<OpenedTools> => {
  const tools = await rightOf(mcpTools(options))
  opened.add(tools)
  return {
    ...tools,
    call: (name, args = {}, signal = new AbortController().signal) => {
      const tool = tools.tools().find((each) => each.name === name)
      if (tool === undefined) throw new Error(`there is no tool ${name}`)
      return tool.call(args, { state: null, key: keyFromSeed(0), signal })()
    },
  }
}

/** Why tools cannot be opened. */
export const refusalOf = (options: McpToolsOptions) => leftOf(mcpTools(options))
