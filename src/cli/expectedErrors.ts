/**
 * Errors of the layers below that users can cause. Commands print them as one line without a stack.
 */
import { FailureError } from '@tandem-rl/base'
import { NonFiniteLoss } from '../learners/steps/lossStep.js'
import { CommandError } from './failure.js'

/**
 * Converts exceptions for expected failures to CommandError. Returns other exceptions unchanged.
 */
export const asCommandError = (error: unknown): unknown =>
  error instanceof FailureError || error instanceof NonFiniteLoss ? new CommandError(error.message) : error
