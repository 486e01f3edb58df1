/** Transforms for tools that are called by name and arguments. */

import { checkOptions } from '@tandem-rl/base'
import type { ToolCallFormat } from '@tandem-rl/text'
import type { HistoryPrompt, Transform } from 'tandem-rl'
import { EXECUTE_TOOLS_IN_ORDER_OPTIONS, SIMPLE_TOOL_TRANSFORM_OPTIONS } from '../optionKinds.js'
import { callsOfText, type TextCalls } from './requestedCalls.js'
import { type ToolRegistry, toolSpecs } from './toolRegistry.js'
import { type ToolCallOptions, type ToolEntries, type ToolTransformOptions, toolTransform } from './toolTransform.js'

/** Options of tools that are called by name and arguments. */
export interface NamedToolOptions extends ToolCallOptions, Pick<TextCalls, 'thoughts'> {
  /**
   * The format in which the policy writes calls in its text. Default: calls are in the `toolCalls`
   * of its messages, and text is not parsed.
   */
  readonly format?: ToolCallFormat
}

export interface SimpleToolTransformOptions extends NamedToolOptions {
  readonly registry: ToolRegistry
}

/** Makes a `toolTransform` for tools that are called by name and arguments. */
export const namedToolTransform = ({
  format,
  thoughts,
  ...options
}: Omit<ToolTransformOptions, 'read'> & NamedToolOptions): Transform<null, HistoryPrompt, ToolEntries> =>
  toolTransform({
    ...options,
    ...(format !== undefined && {
      read: callsOfText(format, { tools: toolSpecs(options.registry), ...(thoughts && { thoughts }) }),
    }),
  })

/**
 * Runs the calls of the policy's last message in parallel, and appends their results in the order
 * of the calls. Place it inside `TemplateTransform`, and only one in a chain: a `ToolRegistry`
 * holds any number of tools.
 *
 * Errors of a call are returned to the policy: invalid arguments, an unknown tool, a timeout, text
 * that cannot be parsed as a call. Errors that do not depend on the policy, such as a tool whose
 * server is down, fail the rollout.
 *
 * Errors   `Left(EnvFailure)` with the `ToolFailure` of kind `infrastructure` as its cause; throws
 *          RangeError for limits below 1.
 * Effects  those of the tools. A tool that does not stop at its time limit is abandoned, and its
 *          reply is dropped.
 * Source   TorchRL `SimpleToolTransform`, which stores its time limit and does not apply it.
 *
 * @example
 * SimpleToolTransform({ registry: ToolRegistry([calculator()]), format: 'hermes' }).name // 'SimpleToolTransform'
 */
export const SimpleToolTransform = (
  options: SimpleToolTransformOptions,
): Transform<null, HistoryPrompt, ToolEntries> => {
  checkOptions('SimpleToolTransform', options, SIMPLE_TOOL_TRANSFORM_OPTIONS)
  return namedToolTransform({ name: 'SimpleToolTransform', ...options })
}

export interface ExecuteToolsInOrderOptions extends SimpleToolTransformOptions {
  /** Run or skip the calls of a message after one that failed. Default `continue`. */
  readonly onError?: 'continue' | 'stop'
}

/**
 * Makes a `SimpleToolTransform` that runs the calls of a message one after another. Each call
 * starts from the state that the previous one left.
 *
 * Errors   as `SimpleToolTransform`.
 * Effects  as `SimpleToolTransform`.
 * Source   TorchRL `ExecuteToolsInOrder`, whose `stop_on_error` is `onError: 'stop'`.
 *
 * @example
 * ExecuteToolsInOrder({ registry: ToolRegistry([calculator()]), onError: 'stop' }).name // 'ExecuteToolsInOrder'
 */
export const ExecuteToolsInOrder = (
  options: ExecuteToolsInOrderOptions,
): Transform<null, HistoryPrompt, ToolEntries> => {
  checkOptions('ExecuteToolsInOrder', options, EXECUTE_TOOLS_IN_ORDER_OPTIONS)
  return namedToolTransform({ name: 'ExecuteToolsInOrder', order: 'sequence', ...options })
}
