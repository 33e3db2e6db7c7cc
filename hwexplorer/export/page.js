document.querySelectorAll("table").forEach(function(t){t.querySelectorAll("th button").forEach(function(b,c){
b.addEventListener("click",function(){var th=b.parentNode,down=th.getAttribute("aria-sort")!=="descending";
t.querySelectorAll("th").forEach(function(o){o.removeAttribute("aria-sort")});
th.setAttribute("aria-sort",down?"descending":"ascending");
var body=t.tBodies[0],rows=Array.prototype.slice.call(body.rows);
rows.sort(function(x,y){var a=x.cells[c].dataset.v,d=y.cells[c].dataset.v,p=parseFloat(a),q=parseFloat(d);
var s=isNaN(p)||isNaN(q)?a.localeCompare(d):p-q;return down?-s:s});
rows.forEach(function(r){body.appendChild(r)})})})});
document.querySelectorAll("tbody").forEach(function(body){function draw(){var shut=Infinity;
Array.prototype.forEach.call(body.rows,function(r){var d=+r.dataset.depth;if(d<=shut)shut=Infinity;r.hidden=d>shut;
if(!r.hidden&&r.classList.contains("shut"))shut=d});
var all=Array.prototype.slice.call(body.closest("table").rows);
Array.prototype.forEach.call(all[0].cells,function(_,c){
var empty=all.every(function(r){return r.hidden||r.cells[c].tagName==="TH"||!r.cells[c].innerHTML});
all.forEach(function(r){r.cells[c].hidden=empty})})}
body.querySelectorAll("td button").forEach(function(b){b.addEventListener("click",function(){
b.closest("tr").classList.toggle("shut");draw()})});draw()});
document.querySelectorAll("table[data-turns]").forEach(function(t){var rows=Array.prototype.slice.call(t.tBodies[0].rows);
var controls=[],bar=document.createElement("p"),note=document.createElement("p");bar.className="turns";
note.textContent="This combination is not in the sweep: choose another one.";
function part(text,cap){var at=text.indexOf("@");return cap?(at<0?"no cap":text.slice(at+1)):at<0?text:text.slice(0,at)}
function add(name,value,first){var seen=[];rows.forEach(function(r){var v=value(r);if(seen.indexOf(v)<0)seen.push(v)});
if(seen.length<2)return;var label=document.createElement("label"),list=document.createElement("select");
label.textContent=name+" ";(first?[]:["all"]).concat(seen).forEach(function(v){
var o=document.createElement("option");o.value=o.textContent=v;list.appendChild(o)});
list.addEventListener("change",draw);controls.push([list,value]);label.appendChild(list);bar.appendChild(label)}
function draw(){rows.forEach(function(r){r.hidden=!controls.every(function(c){
return c[0].value==="all"||c[0].value===c[1](r)})});note.hidden=rows.some(function(r){return !r.hidden})}
t.dataset.turns.split(" ").forEach(function(c){var name=t.tHead.rows[0].cells[c].textContent.toLowerCase();
function text(r){return r.cells[c].dataset.v}
if(name==="device"){add(name,function(r){return part(text(r),false)},false);add("cap",function(r){
return part(text(r),true)},false)}else add(name,function(r){return r.cells[c].textContent.trim()},true)});
t.parentNode.parentNode.insertBefore(bar,t.parentNode);bar.after(note);draw()});
