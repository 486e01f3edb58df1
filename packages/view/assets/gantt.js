/** Lanes of bars over a common axis. */
import { h } from './dom.js'

/**
 * @typedef {object} Bar
 * @property {number} from
 * @property {number} to
 * @property {string} color a custom property; bars without one are gaps in which the lane waits
 * @property {string} text shown at the pointer
 * @property {string} [href]
 */

/**
 * @typedef {object} Lane
 * @property {unknown} label
 * @property {string} name the label for screen readers
 * @property {number} [depth] how far the label is indented
 * @property {readonly Bar[]} bars
 */

const TICKS = 5

/** Share of the axis with ticks. The rest has room for half of the last label. */
const WITH_TICKS = 0.95

/** @param {number} seconds on an axis, all in one unit so that the ticks read as even steps */
export const axisTime = (seconds) =>
  seconds > 0 && seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${Number(seconds.toFixed(2))} s`

/** The smallest round step with which a length has at most a few ticks. */
const tickStep = (length) => {
  const rough = Math.max(length, 1e-9) / TICKS
  const power = 10 ** Math.floor(Math.log10(rough))
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough)
}

const barOf = ({ from, to, color, text, href }, place) => {
  const style = { left: place(from), width: place(to - from), background: color === undefined ? null : `var(${color})` }
  const kind = color === undefined ? 'span waits' : 'span'
  return href === undefined
    ? h('span', { class: kind, title: text, style })
    : h('a', { class: kind, href, title: text, 'aria-label': text, style })
}

/**
 * Draws lanes. Bars keep the given times; the axis starts at 0.
 *
 * @param {object} options
 * @param {string} options.title for screen readers
 * @param {readonly Lane[]} options.lanes
 * @param {number} options.length of the axis
 * @param {(value: number) => string} options.format of the axis
 */
export const gantt = ({ title, lanes, length, format }) => {
  const place = (value) => `${((100 * value) / Math.max(length, 1e-9)).toFixed(3)}%`
  const step = tickStep(length)
  const ticks = Array.from({ length: Math.floor((WITH_TICKS * length) / step) + 1 }, (_, i) => i * step)
  const rows = lanes.map(({ label, name, depth = 0, bars }) => {
    const hasLinks = bars.some(({ href }) => href !== undefined)
    return h(
      'li',
      {},
      h('span', { class: 'lane-name', style: { 'padding-left': `${depth * 14}px` } }, label),
      h(
        'span',
        hasLinks
          ? { class: 'track', role: 'group', 'aria-label': name }
          : { class: 'track', role: 'img', 'aria-label': `${name}: ${bars.map(({ text }) => text).join('; ')}` },
        bars.map((bar) => barOf(bar, place)),
      ),
    )
  })
  const axis = h(
    'div',
    { class: 'gantt-axis', 'aria-hidden': 'true' },
    h('span'),
    h(
      'span',
      { class: 'ticks' },
      ticks.map((value) => h('span', { style: { left: place(value) } }, format(value))),
    ),
  )
  return h('figure', { class: 'gantt' }, h('ol', { 'aria-label': title }, rows), axis)
}
