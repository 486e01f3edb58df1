/** The programs that are compared, and the processes that run them. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { peerPython } from '../shared/peers.js'
import { type Backend, findPackage, PACKAGES } from './backend.js'
import { type End, type Failed, MARK, type Message, type Ready, type Turn } from './messages.js'
import type { Workload } from './workloads.js'

export const CONTESTANTS = ['onnxruntime', 'torch', 'tensorflow', 'wasm'] as const

export type Contestant = (typeof CONTESTANTS)[number]

/** The one that the others are compared with. */
export const REFERENCE: Contestant = 'onnxruntime'

/** Returns what is missing for a contestant and how to get it; undefined if nothing is. */
export const missing = (contestant: Contestant, modules: string | undefined): string | undefined => {
  if (contestant === 'torch') {
    return existsSync(peerPython())
      ? undefined
      : 'no Python of the peers: PEERS_VENV names a virtual environment with torch and transformers'
  }
  return findPackage(contestant, modules) === undefined
    ? `${PACKAGES[contestant].join(' or ')} is not installed: \`--modules DIR\` names a folder in whose node_modules it is`
    : undefined
}

/** A process that waits for its turns. */
export interface Player {
  readonly ready: Ready | Failed
  readonly turn: (seconds: number, runs: number) => Promise<Turn | Failed>
  readonly end: () => Promise<End | Failed>
}

const here = dirname(fileURLToPath(import.meta.url))
const root = dirname(dirname(here))

interface Start {
  readonly workload: Workload
  readonly threads: number
  readonly modules: string | undefined
}

const commandOf = (
  contestant: Contestant,
  { workload, threads, modules }: Start,
): readonly [string, readonly string[]] => {
  if (contestant === 'torch') return [peerPython(), [join(here, 'peer.py'), JSON.stringify({ workload, threads })]]
  const backend: Backend = contestant
  const job = JSON.stringify({ backend, threads, modules, workload })
  return [process.execPath, ['--import', 'tsx', fileURLToPath(new URL('./worker.ts', import.meta.url)), job]]
}

/** libtensorflow takes its number of threads from the environment. */
const environment = (contestant: Contestant, threads: number): NodeJS.ProcessEnv =>
  contestant === 'tensorflow'
    ? {
        ...process.env,
        TF_CPP_MIN_LOG_LEVEL: '2',
        TF_NUM_INTRAOP_THREADS: String(threads),
        TF_NUM_INTEROP_THREADS: '1',
        OMP_NUM_THREADS: String(threads),
      }
    : process.env

/** Starts the process of a contestant; resolves when it has run once and is warm, or failed. */
export const startPlayer = async (contestant: Contestant, start: Start): Promise<Player> => {
  const [command, args] = commandOf(contestant, start)
  const child = spawn(command, args, {
    cwd: root,
    env: environment(contestant, start.threads),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const inbox: Message[] = []
  let waiting: ((message: Message) => void) | undefined
  let lastWords = ''
  const deliver = (message: Message): void => {
    const receiver = waiting
    waiting = undefined
    if (receiver === undefined) inbox.push(message)
    else receiver(message)
  }
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line.startsWith(MARK)) deliver(JSON.parse(line.slice(MARK.length)) as Message) // written by our own programs
  })
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (line.trim() !== '') lastWords = line.trim()
  })
  child.stdin.on('error', () => {}) // a process that died is reported by its end
  child.on('error', (error) => deliver({ tag: 'Failed', problem: error.message }))
  child.on('close', (code) => deliver({ tag: 'Failed', problem: `ended with code ${code}: ${lastWords}` }))

  const receive = async <T extends Message['tag']>(tag: T): Promise<Extract<Message, { tag: T }> | Failed> => {
    const message = inbox.shift() ?? (await new Promise<Message>((resolve) => (waiting = resolve)))
    if (message.tag === 'Failed') return message
    if (message.tag !== tag) throw new Error(`${contestant}: expected ${tag}, got ${message.tag}`)
    return message as Extract<Message, { tag: T }> // by its tag
  }
  return {
    ready: await receive('Ready'),
    turn: (seconds, runs) => {
      child.stdin.write(`turn ${seconds} ${runs}\n`)
      return receive('Turn')
    },
    end: () => {
      child.stdin.write('end\n')
      return receive('End')
    },
  }
}
