/**
 * A model on its own thread, which samples, scores and computes gradients with the latest weights
 * that it received.
 */
import type { ThreadPort, ThreadProgram } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import { engineReport, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { NamedTensors } from '../../data/weights.js'
import { loadExport } from '../../live/moduleExport.js'
import { makeGenerator } from '../../modules/generation/generator.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { makeScorer } from '../../modules/transformer/scorer.js'
import type { AnyLoss } from '../../objectives/loss.js'
import { lossFingerprint } from '../steps/fingerprint.js'
import { countTensors } from '../steps/lossStep.js'
import { computedGradients, stepGradients } from '../steps/stepGradients.js'
import { stepLoss } from '../steps/stepLoss.js'
import { tensorsOfRows } from '../steps/tokenRows.js'
import type {
  PlainGradients,
  PlainTensor,
  ReplicaInput,
  ReplicaJob,
  ReplicaMessage,
  ReplicaReply,
  ReplicaResults,
  WeightRole,
} from './messages.js'
import { plainTensors, plainTree, tensorsOfPlain } from './plainTensors.js'

/**
 * Loads the loss. Rejects if it computes other numbers than that of the owner, such as a copy of an
 * objective with another function but the same name.
 */
const loadLoss = async ({ loss: from, fingerprint }: ReplicaInput): Promise<AnyLoss> => {
  const loss = await loadExport<AnyLoss>(from)
  if (lossFingerprint(loss) !== fingerprint)
    throw new RangeError(
      `the loss that ${from.module} exports as ${from.exportName} is not ${loss.name} as it is used here: export this one, or use one thread`,
    )
  return loss
}

/** Copies the gradients, so that their buffers can be transferred. */
const moved = (gradients: PlainGradients): PlainGradients => ({
  ...gradients,
  grads:
    gradients.grads &&
    Object.fromEntries(
      Object.entries(gradients.grads).map(([name, tensor]) => [name, { ...tensor, data: tensor.data.slice() }]),
    ),
})

const buffersOf = (result: ReplicaResults[ReplicaJob['_tag']]): readonly ArrayBuffer[] =>
  'grads' in result
    ? Object.values(result.grads ?? {}).map(({ data }) => data.buffer as ArrayBuffer /* of a slice */)
    : []

/**
 * Makes a replica's weights, generator, scorer and gradients. Mutable; lives as long as its thread.
 */
const makeReplica = (config: DecoderConfig, loss: AnyLoss, { recompute }: Pick<ReplicaInput, 'recompute'>) => {
  const held: Readonly<Record<WeightRole, Map<string, Owned<NamedTensors>>>> = {
    policy: new Map(),
    reference: new Map(),
  }
  const generator = makeGenerator(config)
  const scorer = makeScorer(config)
  const gradients = stepGradients(config, stepLoss(config, loss), recompute)

  const hold = (role: WeightRole, weights: Readonly<Record<string, PlainTensor>>): void => {
    for (const [name, tensor] of Object.entries(weights)) {
      const next = own(scope(() => tensorsOfPlain({ [name]: tensor })))
      held[role].get(name)?.release()
      held[role].set(name, next)
    }
  }

  const weights = (role: WeightRole): NamedTensors =>
    Object.assign({}, ...[...held[role].values()].map(({ value }) => value))

  const gradientsOf = ({ trained, micro, counts }: Extract<ReplicaJob, { readonly _tag: 'Gradients' }>) =>
    scope(() => {
      const all = Object.entries(weights('policy'))
      const isTrained = new Set(trained)
      const input = {
        params: Object.fromEntries(all.filter(([name]) => isTrained.has(name))),
        frozen: Object.fromEntries(all.filter(([name]) => !isTrained.has(name))),
        counts: countTensors(counts),
        ...tensorsOfRows(micro.rows, config),
      }
      const { grads, loss, aux, places } = computedGradients(gradients, input, micro)
      return moved({ grads: grads && plainTensors(grads), part: plainTree({ loss, aux }), places })
    })

  const run = async (job: ReplicaJob): Promise<ReplicaResults[ReplicaJob['_tag']]> => {
    switch (job._tag) {
      case 'Generate':
        return generator.generate(weights('policy'), job.request, liveClock.breathe)
      case 'Score':
        return scorer.score(weights(job.role), job.request)
      case 'Gradients':
        return gradientsOf(job)
    }
  }

  return {
    hold,
    run,
    release: (): void => {
      for (const role of Object.values(held)) {
        for (const owned of role.values()) owned.release()
        role.clear()
      }
      generator.release()
      scorer.release()
      gradients.release()
    },
  }
}

/**
 * Runs a replica on the current thread.
 *
 * Errors   rejects, which ends the thread, if the module of the loss cannot be imported or its
 *          function throws.
 *
 * @public by its name, in the thread
 */
export const runReplica = async (port: ThreadPort, given: unknown): Promise<void> => {
  const input = given as ReplicaInput // from `startReplicas`
  const { config, backend, threads } = input
  // A new thread starts the default engine on first use, with threads for the whole machine.
  const { backend: active, threads: activeThreads } = engineReport()
  if (active !== backend || (threads !== null && activeThreads !== threads))
    await selectBackend({ backend, ...(threads !== null && { threads }) })
  const replica = makeReplica(config, await loadLoss(input), input)
  const post = (event: ReplicaReply, transfer?: readonly ArrayBuffer[]): void => port.post(event, transfer)

  const perform = async ({ number, job }: Extract<ReplicaMessage, { readonly _tag: 'Job' }>): Promise<void> => {
    try {
      const result = await replica.run(job)
      post({ _tag: 'Done', number, result }, buffersOf(result))
    } catch (error) {
      const [name, message] = error instanceof Error ? [error.name, error.message] : ['Error', String(error)]
      post({ _tag: 'Threw', number, name, message })
    }
  }

  const handle = async (message: ReplicaMessage): Promise<void> => {
    switch (message._tag) {
      case 'Weights':
        return replica.hold(message.role, message.weights)
      case 'Job':
        return perform(message)
      case 'Close':
        replica.release()
        return post({ _tag: 'Closed' })
    }
  }

  let last = Promise.resolve()
  port.listen((message) => {
    last = last.then(() => handle(message as ReplicaMessage)) // from `startReplicas`; a rejection ends the thread
  })
  post({ _tag: 'Ready', threads: engineReport().threads })
}

export const REPLICA_PROGRAM: ThreadProgram = { module: import.meta.url, exportName: 'runReplica' }
