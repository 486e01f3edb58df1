/** Text of runs: control, bidirectional and invisible characters are drawn by name. */
import { h } from './dom.js'

const CONTROLS =
  'NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'.split(
    ' ',
  )

const NAMES = {
  127: 'DEL',
  173: 'SHY',
  1564: 'ALM',
  6158: 'MVS',
  8203: 'ZWSP',
  8204: 'ZWNJ',
  8205: 'ZWJ',
  8206: 'LRM',
  8207: 'RLM',
  8232: 'LS',
  8233: 'PS',
  8234: 'LRE',
  8235: 'RLE',
  8236: 'PDF',
  8237: 'LRO',
  8238: 'RLO',
  8288: 'WJ',
  8294: 'LRI',
  8295: 'RLI',
  8296: 'FSI',
  8297: 'PDI',
  65279: 'BOM',
  65533: '\ufffd',
}

const SPECIAL =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to draw by name
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffd\u{e0000}-\u{e007f}]/gu

/** @param {number} code */
const nameOf = (code) => {
  if (code < 0x20) return CONTROLS[code]
  return NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`
}

/**
 * Replaces special characters by their names, for places that hold only a string.
 *
 * @param {string} text
 */
export const visibleText = (text) => text.replace(SPECIAL, (each) => nameOf(each.codePointAt(0)))

/**
 * Returns text nodes and marks for the special characters of a text.
 *
 * @param {string} text
 * @returns {Node[]}
 */
export const visible = (text) => {
  const nodes = []
  let from = 0
  for (const { 0: found, index } of text.matchAll(SPECIAL)) {
    if (index > from) nodes.push(document.createTextNode(text.slice(from, index)))
    const code = found.codePointAt(0)
    const title = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`
    nodes.push(h('span', { class: 'ctl', title }, nameOf(code)))
    from = index + found.length
  }
  if (from < text.length || nodes.length === 0) nodes.push(document.createTextNode(text.slice(from)))
  return nodes
}

const PREVIEW = 20_000

/**
 * Makes an element that holds a long text. Only its beginning is drawn until the reader asks for
 * all of it.
 *
 * @param {string} text
 */
export const longText = (text) => {
  const box = h('div', { class: 'text', dir: 'ltr' })
  const draw = (end) => {
    box.replaceChildren(...visible(text.slice(0, end)))
    if (end >= text.length) return
    const rest = text.length - end
    box.append(
      h(
        'button',
        { class: 'more', onclick: () => draw(end + 50 * PREVIEW) },
        `Show ${rest.toLocaleString('en-US')} more characters`,
      ),
    )
  }
  draw(PREVIEW)
  return box
}
