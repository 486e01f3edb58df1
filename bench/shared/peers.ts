/** Programs of others that do the work of a benchmark. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BenchSettings } from './settings.js'

/** The times of a peer in one round. */
export interface PeerTimes {
  /** Name and version. */
  readonly peer: string
  /** Median over the runs. */
  readonly seconds: number
  /** Seconds of the first run, in which it compiled. Absent for programs that do not compile. */
  readonly compileSeconds?: number
}

/** A program that does the same work. */
export interface Peer {
  /** Times one round of runs, after those that warm up. */
  readonly time: () => Promise<PeerTimes>
}

const root = fileURLToPath(new URL('../..', import.meta.url))

const peerFolder = join(root, '..', 'shared', 'peers')

/** The Python of the peers' virtual environment, whether or not it exists. */
export const peerPython = (): string => join(process.env.PEERS_VENV ?? join(peerFolder, '.venv'), 'bin', 'python')

/** A file of the shared peers. */
export const sharedPeer = (name: string): string => join(peerFolder, name)

/** A program of `bench/peers`, which imports the modules of the shared peers. */
export const ownPeer = (name: string): string => join(root, 'bench', 'peers', name)

/** The last line that a program wrote to standard error, such as the message of an exception. */
const lastError = (error: unknown): string => {
  if (!(error instanceof Error && 'stderr' in error)) return String(error)
  return String(error.stderr).trim().split('\n').at(-1) ?? ''
}

/** A Python program that is started for every round, and prints its times as JSON. */
export const pythonPeer = (program: string, settings: BenchSettings, sizes: Readonly<Record<string, number>>): Peer => {
  const python = peerPython()
  if (!existsSync(python) || !existsSync(peerFolder)) {
    throw new Error(
      'the peers are not installed: run setup.sh in ../shared/peers, or set PEERS_VENV to their virtual environment',
    )
  }
  const { hidden, layers, heads, kvHeads, vocab, threads, runs, warmup } = settings
  const all = { hidden, layers, heads, 'kv-heads': kvHeads, vocab, threads, runs, warmup, ...sizes }
  const args = Object.entries(all).flatMap(([name, value]) => [`--${name}`, String(value)])
  const output = (): string => {
    try {
      return execFileSync(python, [program, ...args], {
        ...{ encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 2 ** 28 },
        env: { ...process.env, PYTHONPATH: peerFolder },
      })
    } catch (error) {
      throw new Error(`${program} failed: ${lastError(error)}`)
    }
  }
  return {
    time: async () => {
      const line: unknown = JSON.parse(output().trim().split('\n').at(-1) ?? '')
      if (typeof line !== 'object' || line === null || !('seconds' in line) || !('peer' in line)) {
        throw new Error(`${program} printed no result`)
      }
      const compiling = 'compile_seconds' in line ? { compileSeconds: Number(line.compile_seconds) } : {}
      return { peer: String(line.peer), seconds: Number(line.seconds), ...compiling }
    },
  }
}
