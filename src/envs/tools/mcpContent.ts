/** What an MCP tool answered, as what a policy gets to see. */
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/sdk/types.js'
import { hide } from '../../core/secrets.js'
import type { ContentPart } from '../../text/history/history.js'

/** Parts of one result; more are left out. */
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
  /** Characters of all texts together; what is more is cut off, with a mark. */
  readonly maxText: number
  /** What no text may show. */
  readonly secrets: readonly string[]
}

/** The beginning of a text, with a mark where it was cut. No surrogate pair is cut in two. */
const cutText = (text: string, length: number): string => {
  if (text.length <= length) return text
  const kept = text.slice(0, length).replace(/[\uD800-\uDBFF]$/, '')
  return `${kept}\n[cut: ${kept.length} of ${text.length} characters]`
}

/**
 * The content of a result: one text where all of it is text, with a line break between its parts,
 * and else its parts. A result of structured content alone is its JSON.
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
