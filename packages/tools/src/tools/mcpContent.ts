/** Converts results of MCP tools to content for a policy. */
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/sdk/types.js'
import { hide } from '@tandem-rl/base'
import type { ContentPart } from '@tandem-rl/text'

/** Maximum number of parts of a result; the rest is dropped. */
const MOST_PARTS = 100

const partOf = (block: ContentBlock): ContentPart => {
  const text = (value: string): ContentPart => ({ type: 'text', text: value })
  switch (block.type) {
    case 'text':
      return text(block.text)
    case 'image':
    case 'audio':
      return { type: block.type, source: { base64: block.data, mediaType: block.mimeType } }
    case 'resource_link':
      return text(`[${block.name}](${block.uri})`)
    case 'resource': {
      const { resource } = block
      if ('text' in resource) return text(resource.text)
      const { mimeType = 'application/octet-stream', blob } = resource
      return mimeType.startsWith('image/')
        ? { type: 'image', source: { base64: blob, mediaType: mimeType } }
        : text(`[${resource.uri}: ${Math.floor(blob.length * 0.75)} bytes of ${mimeType}]`)
    }
  }
}

export interface McpContentLimits {
  /** Maximum characters of all texts together; longer text is truncated with a mark. */
  readonly maxText: number
  /** Strings that are removed from every text. */
  readonly secrets: readonly string[]
}

/** Truncates a text and appends a mark. Surrogate pairs are not split. */
const cutText = (text: string, length: number): string => {
  if (text.length <= length) return text
  const kept = text.slice(0, length).replace(/[\uD800-\uDBFF]$/, '')
  return `${kept}\n[cut: ${kept.length} of ${text.length} characters]`
}

/**
 * Returns the content of a result: one string if all parts are text (joined by line breaks), the
 * list of parts otherwise. A result with structured content alone becomes its JSON.
 */
export const mcpContent = (
  { content, structuredContent }: CallToolResult,
  { maxText, secrets }: McpContentLimits,
): string | readonly ContentPart[] => {
  const parts = content.slice(0, MOST_PARTS).map(partOf)
  const more = content.length - parts.length
  const marked: readonly ContentPart[] = more > 0 ? [...parts, { type: 'text', text: `[${more} more parts]` }] : parts
  const clean = (text: string, length: number): string => cutText(hide(text, secrets), length)
  if (marked.length === 0)
    return structuredContent === undefined ? '' : clean(JSON.stringify(structuredContent), maxText)
  if (marked.every((part) => part.type === 'text')) return clean(marked.map(({ text }) => text).join('\n'), maxText)
  return marked.reduce<{ readonly left: number; readonly parts: readonly ContentPart[] }>(
    ({ left, parts: before }, part) => {
      if (part.type !== 'text') return { left, parts: [...before, part] }
      return {
        left: Math.max(0, left - part.text.length),
        parts: [...before, { type: 'text', text: clean(part.text, left) }],
      }
    },
    { left: maxText, parts: [] },
  ).parts
}
