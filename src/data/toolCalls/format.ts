/** How models write calls of tools, and which way a chat template teaches. */

/** Hermes and Qwen: JSON between `<tool_call>` tags. Llama 3: the answer is JSON with `parameters`. Named as vLLM names its parsers. */
export type ToolCallFormat = 'hermes' | 'llama3_json'

/**
 * The format that a chat template asks the model for; 'none' where it shows neither.
 *
 * @example
 * toolCallFormatOf('For each call, return JSON within <tool_call></tool_call> tags') // 'hermes'
 */
export const toolCallFormatOf = (templateSource: string): ToolCallFormat | 'none' => {
  if (templateSource.includes('<tool_call>')) return 'hermes'
  return /<\|python_tag\|>|"parameters":/.test(templateSource) && templateSource.includes('tools')
    ? 'llama3_json'
    : 'none'
}
