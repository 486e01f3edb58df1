/**
 * An MCP server as a process. Messages are lines of its input and output, and it never outlives
 * this process.
 */
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { asError, type ProcessEnd, type TalkingProcess } from '@tandem-rl/base'
import { textTail } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import type { McpLibrary, McpLimits, McpProgram, McpWorld } from './mcp.js'
import type { McpWire } from './mcpWire.js'

/** Variables of this process that a server inherits: needed to run, and not secret. */
const INHERITED = new Set(['HOME', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'USER'])

/** Number of characters of error output that are kept, to explain its end. */
const TAIL = 2000

/** Number of invalid lines after which a server is dropped. */
const MOST_BAD_LINES = 1000

const variablesOf = ({ env = {} }: McpProgram, { environment }: McpWorld): Readonly<Record<string, string | null>> => ({
  ...Object.fromEntries(
    Object.keys(environment.variables).flatMap((name) => (INHERITED.has(name) ? [] : [[name, null] as const])),
  ),
  ...env,
})

const endText = ({ code, signal }: ProcessEnd): string =>
  signal === null ? `it ended with code ${code}` : `it was ended by ${signal}`

/**
 * Opens a wire to a server process, which starts and ends with the wire.
 *
 * Effects  a process, from `start` until `close`.
 */
export const stdioWire = (
  { ReadBuffer, serializeMessage }: Pick<McpLibrary, 'ReadBuffer' | 'serializeMessage'>,
  program: McpProgram,
  { limits, world }: { readonly limits: McpLimits; readonly world: McpWorld },
): McpWire => {
  const buffer = new ReadBuffer({ maxBufferSize: limits.maxBytes })
  let running: TalkingProcess | undefined
  const errors = textTail(TAIL)
  let why: string | undefined
  let badLines = 0
  let isClosing = false
  const giveUp = (reason: string): void => {
    why ??= reason
    void running?.stop(0)
  }
  /** Delivers the next message; an invalid line is delivered as an error. */
  const readOne = (): 'read' | 'empty' => {
    try {
      const message = buffer.readMessage()
      if (message === null) return 'empty'
      transport.onmessage?.(message)
    } catch (error) {
      badLines++
      if (badLines > MOST_BAD_LINES) giveUp(`it wrote ${badLines} lines that are not messages`)
      transport.onerror?.(asError(error))
    }
    return 'read'
  }
  const transport: Transport = {
    start: async () => {
      const started = await world.processes.converse({
        command: program.command,
        args: program.args ?? [],
        env: variablesOf(program, world),
        ...(program.folder !== undefined && { folder: program.folder }),
        onOutput: (bytes) => {
          if (why !== undefined) return
          try {
            buffer.append(Buffer.from(bytes))
          } catch {
            giveUp(`it wrote a message of more than ${limits.maxBytes} bytes`)
            return
          }
          while (why === undefined && readOne() === 'read');
        },
        onErrors: errors.add,
      })()
      if (E.isLeft(started)) {
        why = started.left.reason
        throw new Error(why)
      }
      running = started.right
      void running.ended.then((end) => {
        if (!isClosing) why ??= endText(end)
        transport.onclose?.()
      })
    },
    send: async (message) => {
      if (running === undefined || why !== undefined) throw new Error(why ?? 'it is not started')
      const sent = await running.write(serializeMessage(message))()
      if (E.isLeft(sent)) throw new Error(sent.left.reason)
    },
    close: async () => {
      if (running === undefined) return
      isClosing = true
      const { ended, endInput, stop } = running
      endInput() // the protocol's request to exit
      const patience = world.timers.after(limits.graceMs, () => void stop(limits.graceMs))
      await ended
      patience()
    },
  }
  return {
    transport,
    why: () => (why === undefined || errors.text() === '' ? why : `${why}; its last errors: ${errors.text()}`),
    cut: () => void running?.stop(0),
    end: () => transport.close(),
  }
}
