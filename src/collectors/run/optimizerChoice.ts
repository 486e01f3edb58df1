/** The optimizer of a run, from its name and options. */

import { refuse } from '../../core/options.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { adafactor } from '../../objectives/updates/adafactor.js'
import { adamW } from '../../objectives/updates/adamW.js'
import { grouped } from '../../objectives/updates/grouped.js'
import { lion } from '../../objectives/updates/lion.js'
import { muon } from '../../objectives/updates/muon.js'
import type { Optimizer } from '../../objectives/updates/optimizer.js'
import { sgd } from '../../objectives/updates/sgd.js'
import type { AnyStateOptimizer } from './optimizerState.js'
import type { OptimizerName, RunSettings } from './settingsSchema.js'

/** The options that each takes, all of them numbers. Muon's are of the matrices, and AdamW's of the rest. */
const OPTIONS = {
  adamw: ['beta1', 'beta2', 'epsilon', 'weightDecay'],
  sgd: ['momentum', 'weightDecay'],
  lion: ['beta1', 'beta2', 'weightDecay'],
  adafactor: ['decay', 'epsilon1', 'epsilon2', 'clip', 'weightDecay'],
  muon: ['momentum', 'iterations', 'beta1', 'beta2', 'epsilon', 'weightDecay'],
} as const satisfies Readonly<Record<OptimizerName, readonly string[]>>

type OptimizerSettings = Pick<RunSettings, 'optimizer'> & Partial<Pick<RunSettings, 'optimizerOptions'>>

type Numbers = Readonly<Record<string, number>>

/** Options by name. Errors: throws RangeError with all parts that are none of the optimizer's. */
const optionsOf = ({ optimizer, optimizerOptions = 'none' }: OptimizerSettings): Numbers => {
  const known: readonly string[] = OPTIONS[optimizer]
  const parts =
    optimizerOptions.trim() === 'none' ? [] : optimizerOptions.split(',').filter((part) => part.trim() !== '')
  const read = parts.map((part) => {
    const [name = '', text = ''] = part.split('=').map((side) => side.trim())
    return { name, text, value: text === '' ? Number.NaN : Number(text) }
  })
  refuse(
    'optimizerOptions',
    read.map(({ name, text, value }) => {
      if (!known.includes(name)) return `${optimizer} has no option '${name}', only ${known.join(', ')}`
      return !Number.isFinite(value) && `${name} must be a number, got '${text}'`
    }),
  )
  return Object.fromEntries(read.map(({ name, value }) => [name, value]))
}

/** The same optimizer to someone who does not look into its state. */
const opaque = <S extends object>(optimizer: Optimizer<S>): AnyStateOptimizer => ({
  ...optimizer,
  update: (grads, state, params, learningRate) => optimizer.update(grads, state as S, params, learningRate), // the state that it made
})

/** Muon for the matrices of hidden layers, at AdamW's learning rates; AdamW for embeddings, the head, gains and biases. */
const muonAndRest = (tables: readonly string[], { momentum, iterations, ...rest }: Numbers) => {
  const weightDecay = rest.weightDecay ?? 0
  return grouped([
    {
      name: 'matrices',
      has: (name, { rank }) => rank === 2 && !tables.includes(name),
      optimizer: muon({
        ...{ scale: 'match-adamw', weightDecay },
        ...(momentum !== undefined && { momentum }),
        ...(iterations !== undefined && { iterations }),
      }),
    },
    { name: 'rest', optimizer: adamW(rest) },
  ])
}

const tablesOf = ({ embedding, learnedPositions }: DecoderConfig): readonly string[] =>
  [embedding.name, learnedPositions, 'lm_head'].map((name) => `${name}.weight`)

const make = (settings: OptimizerSettings, tables: readonly string[]): AnyStateOptimizer => {
  const options = optionsOf(settings)
  switch (settings.optimizer) {
    case 'adamw':
      return opaque(adamW(options))
    case 'sgd':
      return opaque(sgd(options))
    case 'lion':
      return opaque(lion(options))
    case 'adafactor':
      return opaque(adafactor(options))
    case 'muon':
      return opaque(muonAndRest(tables, options))
  }
}

/** Errors: throws RangeError for options that the optimizer does not have or cannot work with, all of them. */
export const checkOptimizer = (settings: OptimizerSettings): void => void make(settings, [])

/**
 * The optimizer of settings, for the parameters of a model or of an adapter on it. Without options none of them lets weights decay.
 *
 * Errors   throws RangeError as `checkOptimizer`.
 */
export const optimizerOf = (settings: OptimizerSettings, config: DecoderConfig): AnyStateOptimizer =>
  make(settings, tablesOf(config))

/** Numbers that the optimizer keeps for each that is trained, at most. */
export const stateNumbers = (settings: OptimizerSettings): number => {
  switch (settings.optimizer) {
    case 'adamw':
    case 'muon': // of embeddings and what else is AdamW's; one of matrices
      return 2
    case 'lion':
      return 1
    case 'sgd':
      return optionsOf(settings).momentum ? 1 : 0
    case 'adafactor': // rows and columns of matrices
      return 0.1
  }
}
