/** Copies of a model with the same weights, each on its own thread. */
import { errorNamed, FailureError, type Thread, type ThreadFailure, type Threads } from '@tandem-rl/base'
import { liveThreads } from '@tandem-rl/host'
import { type BackendName, engineReport, isBackendName } from '@tandem-rl/tfjs-onnxruntime'
import type * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { NamedTensors } from '../../data/weights.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { AnyLoss } from '../../objectives/loss.js'
import { lossFingerprint } from '../steps/fingerprint.js'
import type { Recompute } from '../steps/stepGradients.js'
import type {
  PlainTensor,
  ReplicaInput,
  ReplicaJob,
  ReplicaMessage,
  ReplicaReply,
  ReplicaResults,
  WeightRole,
} from './messages.js'
import { plainTensor } from './plainTensors.js'
import { REPLICA_PROGRAM } from './replica.js'

export interface ReplicasOptions {
  readonly config: DecoderConfig
  /** The loss. Every thread loads it from its module. */
  readonly loss: AnyLoss
  /** Number of computing threads: this one and `workers - 1` others. */
  readonly workers: number
  /** Default `none`. */
  readonly recompute?: Recompute
  /** Threads inside one operation in each other thread. Default: as many as in this thread. */
  readonly threadsEach?: number
  /** Default: real threads. */
  readonly threads?: Threads
}

/** Threads with the same weights. They are counted from 1; 0 is the calling thread. */
export interface Replicas {
  readonly workers: number
  /** Sends all of them the tensors that they lack. Later jobs use these weights for the role. */
  readonly hold: (role: WeightRole, weights: NamedTensors) => void
  /**
   * Rejects with the job's error, or with FailureError of ThreadFailure if its thread has ended.
   */
  readonly run: <T extends ReplicaJob['_tag']>(
    worker: number,
    job: Extract<ReplicaJob, { readonly _tag: T }>,
  ) => Promise<ReplicaResults[T]>
  /**
   * Resolves when all threads have ended. Running jobs get up to ten seconds to finish; later ones
   * are rejected.
   */
  readonly close: () => Promise<void>
}

interface Pending {
  readonly resolve: (value: ReplicaResults[ReplicaJob['_tag']]) => void
  readonly reject: (error: Error) => void
}

/** A thread with its unanswered jobs. Mutable. */
interface Member {
  readonly post: (message: ReplicaMessage) => void
  readonly ask: (job: ReplicaJob) => Promise<ReplicaResults[ReplicaJob['_tag']]>
  readonly close: () => Promise<void>
}

/** Maximum wait of `close` for a running job. */
const CLOSE_LIMIT_MS = 10_000

/** Maximum wait for a thread to start. */
const START_LIMIT_MS = 600_000

const member = (thread: Thread): { readonly member: Member; readonly hear: (event: ReplicaReply) => void } => {
  const jobs = new Map<number, Pending>()
  let count = 0
  let over: ThreadFailure | undefined
  let onClosed = (): void => {}
  const isClosed = new Promise<void>((resolve) => {
    onClosed = resolve
  })
  void thread.ended.then((failure) => {
    over ??= failure
    for (const { reject } of jobs.values()) reject(new FailureError(failure))
    jobs.clear()
  })
  const post = (message: ReplicaMessage): void => thread.post(message)
  const ask: Member['ask'] = async (job) => {
    if (over !== undefined) throw new FailureError(over)
    const number = count++
    post({ _tag: 'Job', number, job })
    return new Promise((resolve, reject) => jobs.set(number, { resolve, reject }))
  }
  const hear = (event: ReplicaReply): void => {
    if (event._tag === 'Closed') onClosed()
    if (event._tag !== 'Done' && event._tag !== 'Threw') return
    const job = jobs.get(event.number)
    jobs.delete(event.number)
    if (event._tag === 'Done') job?.resolve(event.result)
    else job?.reject(errorNamed(event.name, event.message))
  }
  const close = async (): Promise<void> => {
    if (over === undefined) post({ _tag: 'Close' })
    over ??= { _tag: 'ThreadFailure', kind: 'exit', reason: 'the replicas are closed' }
    await thread.stop(isClosed, CLOSE_LIMIT_MS)
  }
  return { member: { post, ask, close }, hear }
}

const startMember =
  (input: ReplicaInput, threads: Threads): TaskEither<ThreadFailure, Member> =>
  async () => {
    const started = await threads.start(REPLICA_PROGRAM, { input, firstWordMs: START_LIMIT_MS })()
    if (E.isLeft(started)) return started
    const thread = started.right
    const made = member(thread)
    const failure = await new Promise<ThreadFailure | undefined>((resolve) => {
      thread.listen((message) => {
        const event = message as ReplicaReply // from `runReplica`
        if (event._tag === 'Ready') resolve(undefined)
        else made.hear(event)
      })
      void thread.ended.then(resolve)
    })
    return failure === undefined ? E.right(made.member) : E.left(failure)
  }

/**
 * Returns the backend of this thread. Throws RangeError for a backend that other threads cannot
 * select.
 */
const backendHere = (): BackendName => {
  const { backend } = engineReport()
  if (!isBackendName(backend)) throw new RangeError(`startReplicas: no backend is chosen yet: call selectBackend first`)
  return backend
}

/**
 * Starts the threads. Each loads this thread's backend, and the loss from its module.
 *
 * Errors   `Left(ThreadFailure)` if a thread failed to start; the others are then ended. Throws
 *          RangeError if `workers` is not a positive integer, and if no backend has been selected.
 * Effects  starts `workers - 1` threads, which keep the process alive until `close`.
 * Cost     each thread holds a copy of the weights and computes in parallel.
 */
export const startReplicas =
  (options: ReplicasOptions): TaskEither<ThreadFailure, Replicas> =>
  async () => {
    const { config, loss, workers, recompute = 'none', threads = liveThreads } = options
    if (!(Number.isInteger(workers) && workers >= 1))
      throw new RangeError(`startReplicas: workers must be a positive integer, got ${workers}`)
    const { module } = loss
    if (module === undefined)
      throw new RangeError(`startReplicas: the loss ${loss.name} has no module for other threads`)
    const each = options.threadsEach ?? engineReport().threads
    const input: ReplicaInput = {
      config,
      loss: module,
      fingerprint: lossFingerprint(loss),
      recompute,
      backend: backendHere(),
      threads: each,
    }
    const started = await Promise.all(Array.from({ length: workers - 1 }, () => startMember(input, threads)()))
    const members = started.flatMap((each) => (E.isRight(each) ? [each.right] : []))
    const closeAll = async (): Promise<void> => {
      await Promise.all(members.map((each) => each.close()))
    }
    const failed = started.find(E.isLeft)
    if (failed !== undefined) {
      await closeAll()
      return failed
    }
    /** The weights that all threads have. Tensors are compared by identity. */
    const sent: Readonly<Record<WeightRole, Map<string, tf.Tensor>>> = { policy: new Map(), reference: new Map() }
    let closing: Promise<void> | undefined
    return E.right({
      workers,
      hold: (role, weights) => {
        const fresh = Object.entries(weights).filter(([name, tensor]) => sent[role].get(name) !== tensor)
        if (fresh.length === 0 || members.length === 0) return
        const plain: Readonly<Record<string, PlainTensor>> = Object.fromEntries(
          fresh.map(([name, tensor]) => [name, plainTensor(tensor)]),
        )
        for (const each of members) each.post({ _tag: 'Weights', role, weights: plain })
        for (const [name, tensor] of fresh) sent[role].set(name, tensor)
      },
      run: async (worker, job) => {
        const one = members[worker - 1]
        if (one === undefined) throw new RangeError(`replicas: there is no worker ${worker} of ${workers}`)
        return one.ask(job) as never // the result type of the job
      },
      close: () => (closing ??= closeAll()),
    })
  }
