/** Elements. Text from runs only ever becomes text nodes; no function here parses HTML. */

const SVG = 'http://www.w3.org/2000/svg'
const SVG_TAGS = new Set(['svg', 'path', 'rect', 'line', 'g', 'circle', 'polyline', 'title', 'text'])

/**
 * @param {Element} element
 * @param {string} name
 * @param {unknown} value
 */
const setProperty = (element, name, value) => {
  if (value === undefined || value === null || value === false) return
  if (name.startsWith('on') && typeof value === 'function') element.addEventListener(name.slice(2), value)
  else if (name === 'style') for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each)
  else if (name === 'data') Object.assign(element.dataset, value)
  else if (name === 'value' || name === 'checked' || name === 'disabled' || name === 'open') element[name] = value
  else element.setAttribute(name, value === true ? '' : String(value))
}

/**
 * Makes an element. Strings and numbers become text nodes; null and false children are left out.
 *
 * @param {string} tag
 * @param {Record<string, unknown>} [properties] attributes, `onclick` and so on, `style`, `data`
 * @param {...unknown} children
 */
export const h = (tag, properties = {}, ...children) => {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag)
  for (const [name, value] of Object.entries(properties)) setProperty(element, name, value)
  append(element, children)
  return element
}

/**
 * @param {Node} parent
 * @param {unknown} child
 */
const append = (parent, child) => {
  if (Array.isArray(child)) for (const each of child) append(parent, each)
  else if (child instanceof Node) parent.append(child)
  else if (child !== null && child !== undefined && child !== false) parent.append(String(child))
}

/**
 * Replaces the children of an element.
 *
 * @param {Element} parent
 * @param {...unknown} children
 */
export const fill = (parent, ...children) => {
  const parts = document.createDocumentFragment()
  append(parts, children)
  parent.replaceChildren(parts)
  return parent
}

/**
 * Makes a card with a title.
 *
 * @param {string} title
 * @param {unknown} tools elements beside the title
 * @param {...unknown} children
 */
export const card = (title, tools, ...children) =>
  h('section', { class: 'card' }, h('header', {}, h('h2', {}, title), tools), ...children)

/**
 * Makes a table from rows of cells. A cell is a child or `{ value, class }`.
 *
 * @param {readonly unknown[]} head
 * @param {readonly (readonly unknown[])[]} rows
 * @param {string} caption a hidden title for screen readers
 */
export const table = (head, rows, caption) => {
  const cell = (tag, value) => {
    const plain = typeof value === 'object' && value !== null && !(value instanceof Node) && !Array.isArray(value)
    return plain ? h(tag, { class: value.class, title: value.title }, value.value) : h(tag, {}, value)
  }
  return h(
    'div',
    { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h(
      'table',
      {},
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          head.map((each) => cell('th', each)),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((row) =>
          h(
            'tr',
            {},
            row.map((each) => cell('td', each)),
          ),
        ),
      ),
    ),
  )
}

let statusTimer = 0

/**
 * Shows a short message at the bottom, which screen readers announce.
 *
 * @param {string} message
 */
export const announce = (message) => {
  const status = document.getElementById('status')
  status.textContent = message
  clearTimeout(statusTimer)
  statusTimer = setTimeout(() => status.replaceChildren(), 5000)
}

/**
 * Opens a dialog and returns a function that closes it.
 *
 * @param {string} title
 * @param {...unknown} children
 */
export const openDialog = (title, ...children) => {
  const close = () => dialog.close()
  const id = `dialog-${Math.random().toString(36).slice(2)}`
  const dialog = h(
    'dialog',
    { 'aria-labelledby': id, onclose: () => dialog.remove() },
    h('header', {}, h('h2', { id }, title), h('button', { class: 'quiet', onclick: close }, 'Close')),
    h('div', { class: 'pad' }, children),
  )
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) close()
  })
  document.body.append(dialog)
  dialog.showModal()
  return close
}
