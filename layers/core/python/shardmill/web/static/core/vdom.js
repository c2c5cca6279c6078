// A small virtual DOM: `h` describes elements, `patch` makes an element's children match the description.
// Text is always inserted as text, so that names and logs are never interpreted as HTML.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "indeterminate", "disabled", "selected", "open", "hidden"]);

export function h(tag, props, ...children) {
  return { tag, props: props || {}, kids: flat(children), key: props ? props.key : undefined, el: null };
}

/** A function that makes a description again only if one of its arguments has changed since the last call. */
export function memo(make) {
  let known = [];
  let made;
  return (...given) => {
    if (made === undefined || given.some((value, at) => value !== known[at])) made = make(...given);
    known = given;
    return made;
  };
}

function flat(children) {
  const found = [];
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === true || child === "") continue;
    found.push(typeof child === "object" ? child : { text: String(child), el: null });
  }
  return found;
}

export function patch(parent, children) {
  const before = parent.vnodes || [];
  const after = flat([children]);
  patchChildren(parent, before, after, parent.namespaceURI === SVG);
  parent.vnodes = after;
}

function patchChildren(parent, before, after, svg) {
  const keyed = new Map();
  const loose = [];
  for (const node of before) node.key === undefined ? loose.push(node) : keyed.set(node.key, node);
  let at = parent.firstChild;
  for (const node of after) {
    const old = node.key === undefined ? takeLoose(loose, node) : takeKeyed(keyed, node);
    if (old) update(old, node, svg);
    else node.el = create(node, svg);
    if (node.el === at) at = at.nextSibling;
    else parent.insertBefore(node.el, at);
    if (!old) mounted(node);
  }
  for (const node of [...loose, ...keyed.values()]) remove(node);
}

function takeLoose(loose, node) {
  const index = loose.findIndex((old) => old.tag === node.tag);
  return index < 0 ? null : loose.splice(index, 1)[0];
}

function takeKeyed(keyed, node) {
  const old = keyed.get(node.key);
  if (!old || old.tag !== node.tag) return null;
  keyed.delete(node.key);
  return old;
}

function create(node, svg) {
  if (node.text !== undefined) return document.createTextNode(node.text);
  const inside = svg || node.tag === "svg";
  const el = inside ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  el.handlers = {};
  setProps(el, {}, node.props);
  for (const kid of node.kids) {
    kid.el = create(kid, inside);
    el.append(kid.el);
  }
  return el;
}

function mounted(node) {
  for (const kid of node.kids || []) mounted(kid);
  node.props?.mount?.(node.el);
}

function update(old, node, svg) {
  if (old === node) return;
  node.el = old.el;
  if (node.text !== undefined) {
    if (old.text !== node.text) node.el.data = node.text;
    return;
  }
  patchChildren(node.el, old.kids, node.kids, svg || node.tag === "svg");
  setProps(node.el, old.props, node.props);
  node.props.update?.(node.el);
}

function remove(node) {
  unmounted(node);
  node.el.remove();
}

function unmounted(node) {
  node.props?.unmount?.(node.el);
  for (const kid of node.kids || []) unmounted(kid);
}

function setProps(el, before, after) {
  for (const name in before) if (!(name in after)) setProp(el, name, before[name], undefined);
  for (const name in after) setProp(el, name, before[name], after[name]);
}

function setProp(el, name, before, value) {
  if (name === "key" || name === "mount" || name === "update" || name === "unmount") return;
  if (name.startsWith("on")) setHandler(el, name.slice(2), value);
  else if (name === "style") setStyle(el, before || {}, value || {});
  else if (isProperty(el, name)) {
    const wanted = value ?? (name === "value" ? "" : false);
    if (el[name] !== wanted && !(name === "value" && before === value && isEdited(el))) el[name] = wanted;
  } else if (before !== value) {
    if (value === undefined || value === null || value === false) el.removeAttribute(name);
    else el.setAttribute(name, value === true ? "" : value);
  }
}

/** Whether to set a property. The value of an option is an attribute: without it, an empty value would be the option's text. */
const isProperty = (el, name) => PROPERTIES.has(name) && name in el && !(name === "value" && el.tagName === "OPTION");

/** Whether the user may be typing in a field: text that is not yet in the description is kept. */
const isEdited = (el) => el === document.activeElement;

function setHandler(el, type, handler) {
  if (!(type in el.handlers)) el.addEventListener(type, (event) => el.handlers[type]?.(event));
  el.handlers[type] = handler;
}

function setStyle(el, before, after) {
  for (const name in before) if (!(name in after)) el.style.removeProperty(name);
  for (const name in after) if (before[name] !== after[name]) el.style.setProperty(name, after[name]);
}
