/**
 * Limits the work of one run of a template. Nested loops, doubling macros and values that contain
 * each other end in a failure instead of a stalled process.
 */
import { workCounter } from '@tandem-rl/base'
import { TemplateError } from './templateError.js'

export const templateWork = workCounter(
  (units) => new TemplateError(`the template does more than ${units} steps of work`),
)
