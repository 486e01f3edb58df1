/** Text and data in HTML pages. */

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Escapes text for the content of an element and for quoted attributes. */
export const htmlText = (text: string): string => text.replace(/[&<>"']/g, (character) => ESCAPES[character]!)

/** Serializes JSON for a script element: it cannot close the element or open a comment. */
export const scriptJson = (value: unknown): string => JSON.stringify(value).replaceAll('<', '\\u003c')
