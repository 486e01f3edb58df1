/** Runs a user's program on one task: a function, or a process. */
import { joinBytes } from '@tandem-rl/base'
import { liveProcesses, textTail } from '@tandem-rl/host'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'

/** The server that a program talks to, for one attempt at a task. */
export interface AgentContext {
  /** Base address for clients of OpenAI's API, and of Anthropic's. */
  readonly baseUrl: string
  /** Key of this session. It names the session for clients with another base address. */
  readonly apiKey: string
  /** Headers that name the session for clients with another base address. */
  readonly headers: Readonly<Record<string, string>>
  /** Aborts at the time limit, and when the run ends. */
  readonly signal: AbortSignal
}

/** A program on one task. Rejects if the program fails. */
export type Program<in T extends Task> = (task: T, context: AgentContext) => Promise<unknown>

/** The arguments of a command, for all tasks or by task. */
export type CommandLine<T extends Task> = readonly string[] | ((task: T) => readonly string[])

/** Bytes of output that are kept. More fails the attempt. */
const MOST_OUTPUT = 2 ** 20

/** Characters of the errors that a failure quotes. */
const QUOTED = 500

/** Time for a process to end after SIGTERM, in ms. */
const GRACE_MS = 2000

/** The variables that the clients of OpenAI's and Anthropic's APIs read. */
const variablesOf = ({ baseUrl, apiKey }: AgentContext): Readonly<Record<string, string | null>> => ({
  OPENAI_BASE_URL: baseUrl,
  OPENAI_API_BASE: baseUrl,
  OPENAI_API_KEY: apiKey,
  ANTHROPIC_BASE_URL: baseUrl.replace(/\/v1$/, ''), // its clients add /v1
  ANTHROPIC_API_KEY: apiKey,
  ANTHROPIC_AUTH_TOKEN: null,
})

/** Collects output up to the limit. Effects: `push` changes it. */
const makeOutput = (onFull: () => void) => {
  const parts: Uint8Array[] = []
  let size = 0
  return {
    push: (bytes: Uint8Array): void => {
      size += bytes.length
      if (size <= MOST_OUTPUT) parts.push(bytes)
      else onFull()
    },
    isFull: () => size > MOST_OUTPUT,
    text: () => new TextDecoder().decode(joinBytes(parts)),
  }
}

/**
 * Makes a program of a command line. The process reads the task's query from its input, and the
 * variables that clients of OpenAI's and Anthropic's APIs read name the server. Its output without
 * surrounding blanks is the result.
 *
 * Errors   rejects if the process cannot be started, exits with another code than 0, or writes more
 *          than 1 MiB.
 * Effects  a process in a group of its own, which ends at the latest when the signal aborts.
 */
export const commandProgram =
  <T extends Task>(
    line: CommandLine<T>,
    { env = {}, folder }: { readonly env?: Readonly<Record<string, string | null>>; readonly folder?: string },
  ): Program<T> =>
  async (task, context) => {
    const [command = '', ...args] = typeof line === 'function' ? line(task) : line
    let stop = (): void => {}
    const output = makeOutput(() => stop())
    const errors = textTail(QUOTED)
    const started = await liveProcesses.converse({
      command,
      args,
      env: { ...env, ...variablesOf(context) },
      onOutput: output.push,
      onErrors: errors.add,
      ...(folder !== undefined && { folder }),
    })()
    if (E.isLeft(started)) throw new Error(started.left.reason)
    const child = started.right
    stop = () => void child.stop(GRACE_MS)
    if (context.signal.aborted) stop()
    else context.signal.addEventListener('abort', stop, { once: true })
    await child.write(task.query)() // a process that does not read its input is fine
    child.endInput()
    const { code, signal } = await child.ended
    context.signal.removeEventListener('abort', stop)
    if (output.isFull()) throw new Error(`the process wrote more than ${MOST_OUTPUT} bytes`)
    if (code === 0) return output.text().trim()
    const reply = errors.text()
    throw new Error(
      `the process ended with ${code === null ? `signal ${signal}` : `code ${code}`}${reply === '' ? '' : `: ${reply}`}`,
    )
  }
