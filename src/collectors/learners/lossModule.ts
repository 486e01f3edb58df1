/** Step cases made from loss descriptions, so that other threads can make them too. */
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { type LossDescription, lossOfDescription } from '../../objectives/lossDescription.js'
import type { StepCaseModule } from '../parallel/messages.js'
import { lossCase } from './lossCases.js'

interface DescribedCase {
  readonly config: DecoderConfig
  readonly loss: LossDescription
}

/**
 * Returns the step case of a described loss.
 *
 * @public by its name, in the thread
 */
export const describedCase = ({ config, loss }: DescribedCase): unknown =>
  lossCase(lossOfDescription(loss), config).stepCase

/** Returns the module that makes the step case of a described loss in another thread. */
export const lossModule = (input: DescribedCase): StepCaseModule => ({
  module: import.meta.url,
  exportName: 'describedCase',
  input,
})
