/** Keyboard shortcuts: of the whole page, and of the view that is open. */
import { h, openDialog } from './dom.js'

/** The time limit for the second key of a sequence such as `g r`, in milliseconds. */
const SEQUENCE = 1200

/** @typedef {{ keys: string, label: string, run: (event: KeyboardEvent) => void }} Shortcut */

/** @type {readonly Shortcut[]} */
let globalKeys = []
/** @type {readonly Shortcut[]} */
let viewKeys = []
let first = ''
let firstAt = 0

/** @param {readonly Shortcut[]} shortcuts */
export const setGlobalKeys = (shortcuts) => {
  globalKeys = shortcuts
}

/** @param {readonly Shortcut[]} shortcuts of the view; they come before those of the page */
export const setViewKeys = (shortcuts) => {
  viewKeys = shortcuts
}

const isTyping = (target) =>
  target instanceof HTMLElement && target.matches('input:not([type="checkbox"]), textarea, select')

const isControl = (target) =>
  target instanceof HTMLElement && target.closest('button, a, summary, [data-own-keys]') !== null

/** @param {KeyboardEvent} event */
const handle = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
  if (document.querySelector('dialog[open]') !== null) return
  if (isTyping(event.target)) {
    if (event.key === 'Escape') event.target.blur()
    return
  }
  if ((event.key === 'Enter' || event.key === ' ') && isControl(event.target)) return
  const sequence = performance.now() - firstAt < SEQUENCE ? `${first} ${event.key}` : ''
  const all = [...viewKeys, ...globalKeys]
  const names = (shortcut) => shortcut.keys.split(', ')
  const found =
    all.find((each) => names(each).includes(sequence)) ?? all.find((each) => names(each).includes(event.key))
  first = event.key
  firstAt = performance.now()
  if (found === undefined) return
  first = ''
  event.preventDefault()
  found.run(event)
}

/** Starts to listen to the keyboard. */
export const listenToKeys = () => document.addEventListener('keydown', handle)

/** @param {string} keys */
const drawn = (keys) =>
  keys
    .split(', ')
    .map((choice, i) => [
      i === 0 ? null : ' or ',
      choice.split(' ').map((key, j) => [j === 0 ? null : ' ', h('kbd', {}, key === '' ? 'Space' : key)]),
    ])

/** Opens the list of shortcuts. */
export const showHelp = () => {
  const list = (shortcuts) =>
    h(
      'dl',
      { class: 'shortcuts' },
      shortcuts.map(({ keys, label }) => [h('dt', {}, drawn(keys)), h('dd', {}, label)]),
    )
  openDialog(
    'Keyboard shortcuts',
    viewKeys.length === 0 ? null : [h('h3', {}, 'This view'), list(viewKeys), h('br')],
    h('h3', {}, 'Everywhere'),
    list(globalKeys),
  )
}
