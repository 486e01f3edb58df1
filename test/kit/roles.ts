/**
 * A simulation of a trainer, workers and the server of their queue, in simulated time. Each can be
 * killed, paused and started at any moment.
 */
import { describe, keyFromSeed, unlessAborted } from '@tandem-rl/base'
import { collectFromQueue, openRolloutQueue, type QueuePosition, runRolloutWorker } from '@tandem-rl/cluster'
import type { ScriptedState } from '@tandem-rl/testing'
import * as E from 'fp-ts/lib/Either.js'
import { QUEUE_START } from '../../packages/cluster/src/workers/queueCollector.js'
import { toNested } from '../../src/data/tensorDict/inspect.js'
import { groupEnvs, keyedPolicy } from './rollouts.js'
import {
  type Life,
  lifeIn,
  type QueueServer,
  type ServerState,
  serverIn,
  type World,
  world,
} from './simulatedProcesses.js'

/** The checkpoint of a trainer. */
interface Disk {
  readonly step: number
  readonly position: QueuePosition
  /** The groups that its weights were trained on: their tickets and rows. */
  readonly trained: readonly { readonly ticket: number; readonly rows: string }[]
}

/** A process: it ends by itself with a reason, or with `null` when its work is done. */
interface Process {
  readonly life: Life
  readonly ended: Promise<string | null>
  /** Frees the resources of a killed process. */
  readonly release: () => void
}

const GROUPS = [
  [1, 2],
  [2, 1],
  [1, 1],
  [2, 2],
]

export const LEASE_MS = 30_000
const SETTINGS = { groupSize: 2, capacity: 4, leaseMs: LEASE_MS, maxAttempts: 10, order: 'task' } as const

/** Times of a rollout's turn and of a training step. */
const TURN_MS = 2000
const STEP_MS = 3000

/** Steps of the whole run, and between two checkpoints. */
export const STEPS = 8
const SAVE_EVERY = 2

const key = keyFromSeed(1)

let names = 0
const ids = { fresh: () => String(names++) }

interface TrainerOptions {
  readonly disk: Disk
  readonly onNotice: (message: string) => void
  readonly onSave: (saved: Disk) => void
}

const startTrainer = (space: World, server: QueueServer, { disk, onNotice, onSave }: TrainerOptions): Process => {
  const life = lifeIn(space)
  let release = (): void => {}
  const train = async (): Promise<string | null> => {
    const log = server.connect(life)
    const options = { settings: SETTINGS, name: 'trainer', timers: life.timers, key, ids, openMs: 3000 }
    const queue = await openRolloutQueue(log, options)()
    if (E.isLeft(queue)) return queue.left.reason
    const begun = await collectFromQueue<ScriptedState>({
      queue: queue.right,
      tasks: (ticket) => ({ ticket }),
      groups: 1,
      position: disk.position,
      onNotice,
    })()
    if (E.isLeft(begun)) return begun.left.reason
    const collector = begun.right
    release = collector.release
    const trained = [...disk.trained]
    for (let { step } = disk; step < STEPS; ) {
      const taken = await collector.next(0)()
      if (E.isLeft(taken) || taken.right._tag === 'End') return E.isLeft(taken) ? taken.left.reason : 'no tasks'
      const { batch, tickets } = taken.right
      release = () => {
        batch.release()
        collector.release()
      }
      trained.push({ ticket: tickets[0]!, rows: JSON.stringify(toNested(batch.value)) })
      await life.sleep(STEP_MS)
      step += 1
      collector.end(tickets.map((ticket) => ({ ticket, how: { _tag: 'Trained', step } })))
      batch.release()
      release = collector.release
      if (step % SAVE_EVERY > 0) continue
      const saved = { step, position: collector.position(), trained: [...trained] }
      onSave(saved)
      await life.sleep(100)
      const stored = await collector.stored(saved.position)()
      if (E.isLeft(stored)) return stored.left.reason
    }
    return null
  }
  return { life, ended: train(), release: () => release() }
}

const startWorker = (space: World, server: QueueServer, name: string): Process => {
  const life = lifeIn(space)
  const stop = new AbortController()
  const { signal } = stop
  const policy = keyedPolicy()
  const work = async (): Promise<string | null> => {
    const log = server.connect(life)
    const options = { name, timers: life.timers, key, ids, openMs: 3000, wait: { limitMs: 600_000, signal } }
    const queue = await openRolloutQueue(log, options)()
    if (E.isLeft(queue)) return signal.aborted ? null : queue.left.reason
    const ended = await runRolloutWorker({
      queue: queue.right,
      env: (_, ticket) => groupEnvs(GROUPS)(ticket),
      policy: {
        ...policy,
        act: (state, each, options) => async () => {
          await unlessAborted(life.sleep(TURN_MS), options?.signal ?? signal)
          return policy.act(state, each, options)()
        },
      },
      ...{ key, signal, limits: { slots: 2 } },
      time: { clock: { now: () => 0, breathe: () => Promise.resolve() }, timers: life.timers }, // equal times in rows
    })()
    return E.isLeft(ended) ? describe(ended.left) : null
  }
  return { life, ended: work(), release: () => stop.abort() }
}

export const ROLES = ['server', 'trainer', 'worker', 'other worker'] as const

export type Role = (typeof ROLES)[number]

/** A change of a process. `start` also continues a paused one. */
export interface Act {
  /** Milliseconds after the act before it. */
  readonly afterMs: number
  readonly role: Role
  readonly what: 'start' | 'pause' | 'kill'
}

/** A process that ended by itself. */
interface RoleEnd {
  readonly role: Role
  /** The reason, or `null` when its work was done. */
  readonly reason: string | null
  readonly startMs: number
  readonly endMs: number
  /** All states of the server in the life of the process. */
  readonly server: readonly ServerState[]
  /** True for a process that was paused. */
  readonly wasPaused: boolean
}

/** The result of a schedule. */
export interface Played {
  readonly ends: readonly RoleEnd[]
  readonly notices: readonly { readonly atMs: number; readonly text: string }[]
  readonly trained: Disk['trained']
  /** Milliseconds from the last act to the end of the trainer, or `null` if it did not end. */
  readonly finishedMs: number | null
}

interface Running extends Process {
  readonly startMs: number
  readonly seen: Set<ServerState>
  wasPaused: boolean
}

/** The longest that a trainer may take after the last act. */
const LIMIT_MS = 3_600_000

/** Plays a schedule. After its last act the server, the trainer and the first worker run. */
export const playRoles = async (acts: readonly Act[]): Promise<Played> => {
  const space = world()
  const server = serverIn(space, 'killed')
  const notices: { atMs: number; text: string }[] = []
  const ends: RoleEnd[] = []
  const running = new Map<Role, Running>()
  let disk: Disk = { step: 0, position: QUEUE_START, trained: [] }
  let serverState: ServerState = 'killed'
  let isRecovery = false

  const processOf = (role: Role): Process => {
    if (role !== 'trainer') return startWorker(space, server, role)
    const onNotice = (text: string): void => void notices.push({ atMs: space.now(), text })
    const onSave = (saved: Disk): void => {
      disk = saved
    }
    return startTrainer(space, server, { disk, onNotice, onSave })
  }

  const start = (role: Role): void => {
    const mine = { ...processOf(role), startMs: space.now(), seen: new Set([serverState]), wasPaused: false }
    running.set(role, mine)
    void mine.ended.then((reason) => {
      if (running.get(role) !== mine) return // it was killed, and has only released its resources
      const { startMs, seen, wasPaused } = mine
      ends.push({ role, reason, startMs, endMs: space.now(), server: [...seen], wasPaused })
      running.delete(role)
      if (isRecovery && reason !== null) start(role) // as a supervisor does
    })
  }

  const setServer = (state: ServerState): void => {
    serverState = state
    for (const { seen } of running.values()) seen.add(state)
    server.set(state)
  }

  const change = ({ role, what }: Omit<Act, 'afterMs'>): void => {
    if (role === 'server') {
      setServer(what === 'start' ? 'runs' : what === 'pause' ? 'paused' : 'killed')
      return
    }
    const mine = running.get(role)
    if (mine === undefined) {
      if (what === 'start') start(role)
      return
    }
    if (what === 'start') mine.life.resume()
    else if (what === 'pause') {
      mine.wasPaused = true
      mine.life.pause()
    } else {
      mine.life.kill()
      mine.release()
      running.delete(role)
    }
  }

  for (const { afterMs, ...act } of acts) {
    await space.until(() => false, afterMs)
    change(act)
  }
  isRecovery = true
  const recoveredMs = space.now()
  for (const role of ['server', 'trainer', 'worker'] as const) change({ role, what: 'start' })
  const isDone = (): boolean => ends.some(({ role, reason }) => role === 'trainer' && reason === null)
  const isFinished = await space.until(isDone, LIMIT_MS)
  const finishedMs = isFinished ? space.now() - recoveredMs : null
  isRecovery = false
  for (const { life, release } of running.values()) {
    life.kill()
    release()
  }
  return { ends, notices, trained: disk.trained, finishedMs }
}
