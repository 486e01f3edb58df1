/** Text and data in HTML pages. */
import type { Digest } from './digest.js'

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

/** The scripts and styles that a page contains. */
interface PageCode {
  readonly scripts: readonly string[]
  /** `inline`: any style in the page, attributes included. */
  readonly styles: readonly string[] | 'inline'
}

/** Returns a content security policy that allows only the code of the page, and no request. */
export const pagePolicy = (digest: Digest, { scripts, styles }: PageCode): string => {
  const bytes = (hex: string): string => hex.replace(/../g, (pair) => String.fromCharCode(Number.parseInt(pair, 16)))
  const hashes = (texts: readonly string[]): string =>
    texts.map((text) => `'sha256-${btoa(bytes(digest(text)))}'`).join(' ')
  const allowed = `script-src ${hashes(scripts)}; style-src ${styles === 'inline' ? "'unsafe-inline'" : hashes(styles)}`
  return `default-src 'none'; ${allowed}; img-src data:; base-uri 'none'; form-action 'none'`
}
